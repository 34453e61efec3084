// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "base/utf8.h"
#include "quadrille/base/file.h"
#include "quadrille/base/json.h"

namespace quadrille {
namespace {

// Where the lexer is. It reads one character beyond a number (and only there) before it reports it.
struct Cursor {
  int line = 1;
  bool after_newline = false;
};

// Reads the text for nlohmann's lexer and counts lines, comments' included. Copies share the
// cursor; the lexer advances only one of them.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, Cursor* cursor) : at_(at), cursor_(cursor) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    cursor_->after_newline = *at_ == '\n';
    if (cursor_->after_newline) ++cursor_->line;
    ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  Cursor* cursor_;
};

// A container that is being read.
struct Frame {
  Json value;
  std::vector<Json::Member> members;
  std::string key;  // Of the member that is being read.
  std::unordered_set<std::string> keys;
};

// Builds the value from nlohmann's events; `false` from an event stops the parser.
class Builder {
 public:
  Builder(const JsonParseOptions& options, const Cursor& cursor)
      : options_(options), cursor_(cursor) {}

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(std::int64_t value) { return add_number(Json(value)); }
  bool number_unsigned(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return too_large(std::to_string(value));
    return add_number(Json(static_cast<std::int64_t>(value)));
  }
  bool number_float(double value, const std::string& text) {
    // nlohmann reads an integer beyond 64 bits as a rounded real.
    if (text.find_first_of(".eE") == std::string::npos) return too_large(text);
    return add_number(Json(value));
  }
  bool string(std::string& value) { return add(Json(std::move(value))); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) { return start(Json::object()); }
  bool end_object() { return end(); }
  bool start_array(std::size_t) { return start(Json::array()); }
  bool end_array() { return end(); }
  bool key(std::string& key) {
    Frame& frame = frames_.back();
    frame.key = std::move(key);
    if (!frame.keys.insert(frame.key).second) report(cursor_.line, "duplicate key", "it only once");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) {
    const std::string text = error.what();
    std::size_t start = text.find("syntax error");
    if (start == std::string::npos) {
      start = text.find("] ");
      start = start == std::string::npos ? 0 : start + 2;
    }
    const std::size_t expected = text.find("; expected ", start);
    const bool split = expected != std::string::npos;
    stop(line_of_token(), text.substr(start, split ? expected - start : std::string::npos),
         split ? text.substr(expected + 11) : "");
    return false;
  }

  [[nodiscard]] std::vector<Diagnostic>& diagnostics() { return diagnostics_; }
  [[nodiscard]] Json& root() { return root_; }

 private:
  [[nodiscard]] int line_of_token() const { return cursor_.line - (cursor_.after_newline ? 1 : 0); }

  [[nodiscard]] std::string path() const {
    std::string path;
    for (const Frame& frame : frames_) {
      if (frame.value.is_array()) {
        path += "[" + std::to_string(frame.value.elements().size()) + "]";
      } else if (!frame.key.empty()) {
        if (!path.empty()) path += '.';
        path += frame.key;
      }
    }
    return path;
  }

  void report(int line, std::string wrong, std::string right) {
    diagnostics_.push_back({options_.file, line, path(), std::move(wrong), std::move(right)});
  }

  // A syntax error stands alone: what follows it cannot be trusted, nor what it cut off.
  void stop(int line, std::string wrong, std::string right) {
    diagnostics_.clear();
    report(line, std::move(wrong), std::move(right));
  }

  bool too_large(const std::string& text) {
    stop(line_of_token(), "the integer " + text + " does not fit into 64 bits",
         "-2^63 to 2^63 - 1");
    return false;
  }

  bool add_number(Json value) { return add_at(line_of_token(), std::move(value)); }
  bool add(Json value) { return add_at(cursor_.line, std::move(value)); }

  bool add_at(int line, Json value) {
    value.set_line(line);
    place(std::move(value));
    return true;
  }

  void place(Json value) {
    if (frames_.empty()) {
      root_ = std::move(value);
    } else if (Frame& frame = frames_.back(); frame.value.is_array()) {
      frame.value.push(std::move(value));
    } else {
      frame.members.emplace_back(std::move(frame.key), std::move(value));
      frame.key.clear();
    }
  }

  bool start(Json container) {
    if (static_cast<int>(frames_.size()) >= options_.depth_most) {
      stop(cursor_.line, "nested too deeply",
           "at most " + std::to_string(options_.depth_most) + " levels");
      return false;
    }
    container.set_line(cursor_.line);
    frames_.push_back({std::move(container), {}, {}, {}});
    return true;
  }

  bool end() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    const int line = frame.value.line();
    Json value =
        frame.value.is_array() ? std::move(frame.value) : Json::object(std::move(frame.members));
    value.set_line(line);
    place(std::move(value));
    return true;
  }

  const JsonParseOptions& options_;
  const Cursor& cursor_;
  std::vector<Frame> frames_;
  std::vector<Diagnostic> diagnostics_;
  Json root_;
};

int line_at(std::string_view text, std::size_t offset) {
  return 1 + static_cast<int>(std::count(text.begin(),
                                         text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

// What nlohmann would take silently, or name badly.
std::optional<Diagnostic> check_bytes(std::string_view text, const std::string& file) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    return Diagnostic{file, 1, "", "the text starts with a byte order mark", "plain UTF-8 text"};
  }
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return Diagnostic{file, line_at(text, nul), "", "a NUL byte", "plain UTF-8 text"};
  }
  if (const std::size_t bad = internal::find_invalid_utf8(text); bad != std::string_view::npos) {
    return Diagnostic{file, line_at(text, bad), "", "bytes that are not UTF-8", "plain UTF-8 text"};
  }
  return std::nullopt;
}

Error invalid(std::vector<Diagnostic> diagnostics, const std::string& file) {
  return {Code::kInvalid, "\"" + file + "\" is not valid JSON", std::move(diagnostics)};
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonParseOptions& options) {
  if (auto diagnostic = check_bytes(text, options.file)) {
    return fail(invalid({std::move(*diagnostic)}, options.file));
  }
  Cursor cursor;
  Builder builder(options, cursor);
  const CountingIterator first(text.data(), &cursor);
  const CountingIterator last(text.data() + text.size(), &cursor);
  const bool parsed = nlohmann::json::sax_parse(
      first, last, &builder, nlohmann::json::input_format_t::json, true, options.comments);
  if (!parsed || !builder.diagnostics().empty()) {
    return fail(invalid(std::move(builder.diagnostics()), options.file));
  }
  return std::move(builder.root());
}

Result<Json> read_json_file(const std::string& path, bool comments) {
  QD_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  return parse_json(text, {.file = path, .comments = comments});
}

}  // namespace quadrille
