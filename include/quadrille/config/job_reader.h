// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// From JSON text to a JobSpec, driven by one table of fields (job_fields.h) from which the reader,
// the writer, docs/job-reference.md and the typo fuzz test all follow. A syntax error stops at the
// first; everything else is reported at once, each with file, line, path, what was wrong and what
// is right.

#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/json.h"
#include "quadrille/base/result.h"
#include "quadrille/config/job_spec.h"

namespace quadrille {

/// `training.steps=20`, from --set. The value is JSON where it parses as JSON, else a string.
struct Override {
  std::string path;
  std::string value;
};

/// Errors: kInvalid, "expected PATH=VALUE"; also where the text is not UTF-8.
[[nodiscard]] Result<Override> parse_override(std::string_view text);

struct JobText {
  std::string file;  ///< For messages; relative paths in `text` are taken from its folder.
  std::string text;  ///< JSON with comments.
  /// Applied in order, after the file: a later one wins. Relative paths in them are taken from the
  /// current folder. `training.steps` displaces the file's `training.tokens`, and the reverse.
  std::vector<Override> overrides;
  bool expand_globs = true;  ///< False leaves globs as they are and looks at no disk.
};

/// Parses, applies the overrides and checks names, kinds, ranges, divisibility and overflow, and
/// that globs match. Whether data files can be read and fit the vocabulary is checked by
/// data::open. A run's job.json ({job, origin, ...}) is accepted like the job inside it. Errors:
/// kInvalid with every diagnostic.
[[nodiscard]] Result<JobSpec> parse_job(const JobText& text);

/// Reads the file and parses it. Errors: also kNotFound.
[[nodiscard]] Result<JobSpec> read_job(const std::string& path,
                                       std::vector<Override> overrides = {});

/// Every effective value, a legal job that parse_job turns back into an equal spec.
[[nodiscard]] Json to_json(const JobSpec& job);

}  // namespace quadrille
