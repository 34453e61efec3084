// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one table of a job's keys. The reader, the writer, the suggestions for unknown keys, the
// reference in docs/ and the typo test all follow from it: a new key is one row here and one member
// of a spec.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quadrille/base/json.h"
#include "quadrille/config/job_spec.h"

namespace quadrille::internal {

/// A job while it is read; `tokens` ends up in `job.training.steps`.
struct JobDraft {
  JobSpec job;
  std::int64_t tokens = 0;
};

// What a value may be and where it goes. Bounds are inclusive unless they say otherwise.
struct IntegerKind {
  std::int64_t& (*slot)(JobDraft&);
  std::int64_t least;
  std::int64_t most;
  bool automatic = false;  ///< "auto" is allowed, and kept as 0.
};
struct SeedKind {
  std::uint64_t& (*slot)(JobDraft&);
};
struct RealKind {
  double& (*slot)(JobDraft&);
  double least;
  double most;
  bool above_least = false;  ///< The bound itself is excluded.
  bool below_most = false;
};
struct SecondsKind {
  Seconds& (*slot)(JobDraft&);
  double most;
};
struct BytesKind {
  Bytes& (*slot)(JobDraft&);
  std::int64_t least;
};
struct BoolKind {
  bool& (*slot)(JobDraft&);
  bool numeric = false;  ///< 0 and 1 are taken too.
};
/// Something that can name a folder.
struct NameKind {
  std::string& (*slot)(JobDraft&);
};
struct PathKind {
  std::string& (*slot)(JobDraft&);
  std::string_view word = "";  ///< A value that is no path.
};
/// One path or glob, or an array of them.
struct PathsKind {
  std::vector<std::string>& (*slot)(JobDraft&);
};
struct ChoiceKind {
  bool (*set)(JobDraft&, std::string_view);
  std::string_view (*get)(const JobDraft&);
  std::string (*choices)();
  std::vector<std::string_view> later;  ///< Known words that this version does not have.
};
/// A key of which this version has only one value, so that layouts of later versions fail honestly.
struct FixedKind {
  std::vector<Json> only;  ///< Ways of writing it.
};

/// A default of one model family that a fresh JobDraft does not show.
struct FamilyDefault {
  ModelFamily family;
  Json value;
};

/// Where a key has an effect. Elsewhere it is refused when read and left out when written.
struct Scope {
  bool (*holds)(const JobSpec&) = nullptr;  ///< Null: everywhere.
  std::string_view text;                    ///< What holds there: `model.family "llama"`.
};

using FieldKind = std::variant<IntegerKind, SeedKind, RealKind, SecondsKind, BytesKind, BoolKind,
                               NameKind, PathKind, PathsKind, ChoiceKind, FixedKind>;

struct JobField {
  std::string_view path;
  FieldKind kind;
  std::string_view unit;
  std::string_view default_text;  ///< Where a fresh JobDraft does not show it; kRequired has none.
  std::string_view meaning;       ///< One sentence or two.
  Scope scope = {};
  std::vector<FamilyDefault> family_defaults = {};

  [[nodiscard]] bool applies_to(const JobSpec& job) const;
};

inline constexpr std::string_view kRequired = "required";
/// The value of data.tokenizer that is no path.
inline constexpr std::string_view kByteTokenizer = "bytes";
/// No default where the row's scope holds.
inline constexpr std::string_view kRequiredThere = "required there";

[[nodiscard]] std::span<const JobField> job_fields();
/// The key describes a transformer: a job of the family "custom" does not have it.
[[nodiscard]] bool is_transformer_key(std::string_view path);
/// The row, or null.
[[nodiscard]] const JobField* find_field(std::string_view path);

/// Paths that later versions may have; naming one is not a typo.
[[nodiscard]] std::span<const std::string_view> later_paths();

/// An object of the job ("" is the job itself) and its keys in table order.
struct JobObject {
  std::string path;
  std::vector<std::string_view> keys;
};
[[nodiscard]] std::span<const JobObject> job_objects();
[[nodiscard]] const JobObject* find_object(std::string_view path);

/// "training" + "steps" -> "training.steps".
[[nodiscard]] std::string joined_path(std::string_view object, std::string_view key);

}  // namespace quadrille::internal
