// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one JSON reader and writer. A value knows its line and path, so that whoever interprets it
// can say exactly where it went wrong; object members keep the order of the file. Numbers keep
// whether they were written as integers, and 64-bit integers stay exact. Parsing is linear, bounded
// in depth, never throws, and is safe on hostile bytes.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quadrille/base/result.h"

namespace quadrille {

class Json {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kInteger, kReal, kString, kArray, kObject };
  using Member = std::pair<std::string, Json>;

  Json() = default;        // null
  Json(std::nullptr_t) {}  // NOLINT: literals read well
  Json(bool value) : kind_(Kind::kBool), bool_(value) {}
  Json(int value) : kind_(Kind::kInteger), integer_(value) {}
  Json(std::int64_t value) : kind_(Kind::kInteger), integer_(value) {}
  Json(double value) : kind_(Kind::kReal), real_(value) {}
  Json(const char* value) : kind_(Kind::kString), string_(value) {}
  Json(std::string value) : kind_(Kind::kString), string_(std::move(value)) {}
  Json(std::string_view value) : kind_(Kind::kString), string_(value) {}
  [[nodiscard]] static Json array() { return Json(Kind::kArray); }
  [[nodiscard]] static Json object() { return Json(Kind::kObject); }
  /// An object with these members; their keys must differ.
  [[nodiscard]] static Json object(std::vector<Member> members) {
    Json value(Kind::kObject);
    value.members_ = std::move(members);
    return value;
  }

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is_null() const { return kind_ == Kind::kNull; }
  [[nodiscard]] bool is_bool() const { return kind_ == Kind::kBool; }
  [[nodiscard]] bool is_integer() const { return kind_ == Kind::kInteger; }
  /// True for integers as well.
  [[nodiscard]] bool is_number() const { return is_integer() || kind_ == Kind::kReal; }
  [[nodiscard]] bool is_string() const { return kind_ == Kind::kString; }
  [[nodiscard]] bool is_array() const { return kind_ == Kind::kArray; }
  [[nodiscard]] bool is_object() const { return kind_ == Kind::kObject; }

  // The kind must match (QD_CHECK): ask first.
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::int64_t as_integer() const;
  [[nodiscard]] double as_number() const;
  [[nodiscard]] const std::string& as_string() const;
  [[nodiscard]] const std::vector<Json>& elements() const;
  [[nodiscard]] const std::vector<Member>& members() const;

  /// The member, or null where there is none or this is no object.
  [[nodiscard]] const Json* find(std::string_view key) const;

  // Lenient reads for files that this project wrote itself: the member's value, or `otherwise`
  // where it is absent or of another kind.
  [[nodiscard]] std::int64_t integer_or(std::string_view key, std::int64_t otherwise) const;
  [[nodiscard]] double number_or(std::string_view key, double otherwise) const;
  [[nodiscard]] std::string string_or(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] bool bool_or(std::string_view key, bool otherwise) const;

  /// Sets or replaces a member of an object (a null becomes an object); returns *this for chaining.
  Json& set(std::string_view key, Json value);
  /// The member itself, made as null where absent; for building and overriding.
  [[nodiscard]] Json& at_or_insert(std::string_view key);
  Json& push(Json value);

  /// Line of the value's first character, from 1; 0 when it was not parsed.
  [[nodiscard]] int line() const { return line_; }
  void set_line(int line) { line_ = line; }

  /// Kinds and values are equal; lines are not compared.
  friend bool operator==(const Json& a, const Json& b);

 private:
  explicit Json(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::kNull;
  bool bool_ = false;
  int line_ = 0;
  std::int64_t integer_ = 0;
  double real_ = 0;
  std::string string_;
  std::vector<Json> elements_;
  std::vector<Member> members_;
};

/// "a string", "a whole number", ...
[[nodiscard]] std::string_view to_text(Json::Kind kind);

struct JsonParseOptions {
  std::string file = "<text>";  ///< For diagnostics.
  bool comments = false;        ///< Accept // and /* */.
  int depth_most = 64;
};

/// Errors: kInvalid with one Diagnostic (file, line, path so far, what was read, what was
/// expected); a duplicate key, an integer beyond 64 bits and bytes after the value are errors too;
/// several duplicate keys are reported together.
[[nodiscard]] Result<Json> parse_json(std::string_view text, const JsonParseOptions& options);

/// The same from a file. Errors: kNotFound, kInternal (I/O), and those of parse_json.
[[nodiscard]] Result<Json> read_json_file(const std::string& path, bool comments = false);

/// Compact on one line where `indent` is 0. Reals are written with the fewest digits that read back
/// equal; NaN and infinities become null, since JSON has no word for them.
[[nodiscard]] std::string write_json(const Json& value, int indent = 0);

}  // namespace quadrille
