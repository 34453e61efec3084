// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "config/job_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "quadrille/base/text.h"

namespace quadrille::internal {
namespace {

// Calls the overload for the row's kind.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

// A whole number, also where it is written as 1e9.
std::optional<std::int64_t> whole(const Json& value) {
  if (value.is_integer()) return value.as_integer();
  if (!value.is_number()) return std::nullopt;
  const double real = value.as_number();
  // Up to 2^53 a double holds every whole number.
  if (std::abs(real) > 0x1p53 || real != std::floor(real)) return std::nullopt;
  return static_cast<std::int64_t>(real);
}

bool is_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-").find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= 100 && text[0] != '.' && text[0] != '-' &&
         std::all_of(text.begin(), text.end(), fits);
}

std::string real_text(double value) { return fmt::format("{}", value); }

std::string expected(const RealKind& kind) {
  std::string text = "a number ";
  text += (kind.above_least ? "above " : "from ") + real_text(kind.least);
  text += (kind.below_most ? " to below " : " to ") + real_text(kind.most);
  return text;
}

std::string expected(const ChoiceKind& kind) {
  const std::string choices = kind.choices();
  return choices.find(',') == std::string::npos ? choices : "one of " + choices;
}

std::string expected(const FixedKind& kind) { return write_json(kind.only.front()); }

struct Expected {
  std::string operator()(const IntegerKind& kind) const {
    std::string text =
        fmt::format("a whole number from {} to {}", grouped(kind.least), grouped(kind.most));
    if (kind.automatic) text += " or \"auto\"";
    return text;
  }
  std::string operator()(const SeedKind&) const { return "a whole number from 0 to 2^63 - 1"; }
  std::string operator()(const RealKind& kind) const { return expected(kind); }
  std::string operator()(const SecondsKind& kind) const {
    return fmt::format("a number of seconds above 0 to {}", real_text(kind.most));
  }
  std::string operator()(const BytesKind& kind) const {
    return fmt::format("bytes, at least {}, as a whole number or like \"512 MiB\"", kind.least);
  }
  std::string operator()(const BoolKind&) const { return "true or false"; }
  std::string operator()(const NameKind&) const {
    return "a name of at most 100 letters, digits, \".\", \"_\" and \"-\" that starts with a "
           "letter, "
           "a digit or \"_\"";
  }
  std::string operator()(const PathKind& kind) const {
    return kind.word.empty() ? "a path" : fmt::format("\"{}\" or a path", kind.word);
  }
  std::string operator()(const PathsKind&) const { return "a path, a glob or an array of them"; }
  std::string operator()(const ChoiceKind& kind) const { return expected(kind); }
  std::string operator()(const FixedKind& kind) const { return expected(kind); }
};

// Says how a value differs from what its row wants; nothing where it is taken.
class ValueReader {
 public:
  ValueReader(const Json& value, JobDraft& draft) : value_(value), draft_(draft) {}

  std::optional<std::string> operator()(const IntegerKind& kind) const {
    if (kind.automatic && value_.is_string() && value_.as_string() == "auto") {
      kind.slot(draft_) = 0;
      return std::nullopt;
    }
    const auto number = whole(value_);
    if (!number) return kind_mismatch("a whole number");
    if (*number < kind.least || *number > kind.most) return out_of_range();
    kind.slot(draft_) = *number;
    return std::nullopt;
  }

  std::optional<std::string> operator()(const SeedKind& kind) const {
    const auto number = whole(value_);
    if (!number) return kind_mismatch("a whole number");
    if (*number < 0) return out_of_range();
    kind.slot(draft_) = static_cast<std::uint64_t>(*number);
    return std::nullopt;
  }

  std::optional<std::string> operator()(const RealKind& kind) const {
    if (!value_.is_number()) return kind_mismatch("a number");
    const double number = value_.as_number();
    const bool low = kind.above_least ? number <= kind.least : number < kind.least;
    const bool high = kind.below_most ? number >= kind.most : number > kind.most;
    if (low || high || !std::isfinite(number)) return out_of_range();
    kind.slot(draft_) = number;
    return std::nullopt;
  }

  std::optional<std::string> operator()(const SecondsKind& kind) const {
    if (!value_.is_number()) return kind_mismatch("a number");
    const double number = value_.as_number();
    if (!(number > 0) || number > kind.most) return out_of_range();
    kind.slot(draft_) = Seconds(number);
    return std::nullopt;
  }

  std::optional<std::string> operator()(const BytesKind& kind) const {
    std::optional<Bytes> bytes;
    if (value_.is_string()) bytes = parse_bytes(value_.as_string());
    if (const auto number = whole(value_)) bytes = Bytes(*number);
    if (!bytes) return kind_mismatch("a number of bytes");
    if (bytes->count() < kind.least) return out_of_range();
    kind.slot(draft_) = *bytes;
    return std::nullopt;
  }

  std::optional<std::string> operator()(const BoolKind& kind) const {
    const auto number = kind.numeric ? whole(value_) : std::nullopt;
    if (number && (*number == 0 || *number == 1)) {
      kind.slot(draft_) = *number == 1;
      return std::nullopt;
    }
    if (!value_.is_bool()) return kind_mismatch("true or false");
    kind.slot(draft_) = value_.as_bool();
    return std::nullopt;
  }

  std::optional<std::string> operator()(const NameKind& kind) const {
    if (!value_.is_string()) return kind_mismatch("a string");
    if (!is_name(value_.as_string())) return quoted_value(value_) + " cannot name a run's folder";
    kind.slot(draft_) = value_.as_string();
    return std::nullopt;
  }

  std::optional<std::string> operator()(const PathKind& kind) const {
    if (!value_.is_string()) return kind_mismatch("a string");
    if (!is_path(value_)) return quoted_value(value_) + " is not a path";
    kind.slot(draft_) = value_.as_string();
    return std::nullopt;
  }

  std::optional<std::string> operator()(const PathsKind& kind) const {
    std::vector<std::string> paths;
    if (value_.is_string()) {
      if (!is_path(value_)) return quoted_value(value_) + " is not a path";
      paths.push_back(value_.as_string());
    } else if (value_.is_array()) {
      for (const Json& element : value_.elements()) {
        if (!element.is_string()) return quoted_value(element) + " is not a string";
        if (!is_path(element)) return quoted_value(element) + " is not a path";
        paths.push_back(element.as_string());
      }
    } else {
      return quoted_value(value_) + " is neither a string nor an array of strings";
    }
    kind.slot(draft_) = std::move(paths);
    return std::nullopt;
  }

  std::optional<std::string> operator()(const ChoiceKind& kind) const {
    if (!value_.is_string()) return kind_mismatch("a string");
    const std::string& word = value_.as_string();
    if (kind.set(draft_, word)) return std::nullopt;
    const bool later = std::find(kind.later.begin(), kind.later.end(), word) != kind.later.end();
    return quoted_value(value_) + (later ? kNotYet : " is none of the choices");
  }

  std::optional<std::string> operator()(const FixedKind& kind) const {
    for (const Json& only : kind.only) {
      if (value_ == only) return std::nullopt;
    }
    return quoted_value(value_) + kNotYet;
  }

 private:
  static constexpr const char* kNotYet = " is not available in this version";

  // An escaped NUL would cut the path short on its way to the system.
  static bool is_path(const Json& value) {
    const std::string& path = value.as_string();
    return !path.empty() && path.size() <= 4096 && path.find('\0') == std::string::npos;
  }

  [[nodiscard]] std::string kind_mismatch(std::string_view kind) const {
    return quoted_value(value_) + " is not " + std::string(kind);
  }
  [[nodiscard]] std::string out_of_range() const {
    return quoted_value(value_) + " is out of range";
  }

  const Json& value_;
  JobDraft& draft_;
};

// Cuts between characters, not inside one.
std::string shortened(std::string text) {
  constexpr std::size_t kMost = 60;
  if (text.size() <= kMost) return text;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

std::string quoted_value(const Json& value) {
  if (value.is_object()) return "an object";
  return shortened(write_json(value));
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  struct Unit {
    std::string_view name;
    std::int64_t factor;
  };
  constexpr std::array<Unit, 12> kUnits{{{"", 1},
                                         {"B", 1},
                                         {"KiB", std::int64_t{1} << 10},
                                         {"MiB", std::int64_t{1} << 20},
                                         {"GiB", std::int64_t{1} << 30},
                                         {"TiB", std::int64_t{1} << 40},
                                         {"PiB", std::int64_t{1} << 50},
                                         {"kB", 1'000},
                                         {"KB", 1'000},
                                         {"MB", 1'000'000},
                                         {"GB", 1'000'000'000},
                                         {"TB", 1'000'000'000'000}}};
  double amount = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), amount, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(amount) || amount < 0) return std::nullopt;
  std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  for (const Unit& unit : kUnits) {
    if (unit.name != rest) continue;
    const double bytes = amount * static_cast<double>(unit.factor);
    // "1.5 GiB" is whole; "0.3 B" and what a double cannot hold exactly are not.
    if (bytes != std::floor(bytes) || bytes > 0x1p53) return std::nullopt;
    return Bytes(static_cast<std::int64_t>(bytes));
  }
  return std::nullopt;
}

std::optional<Problem> read_value(const JobField& field, const Json& value, JobDraft& draft) {
  auto wrong = std::visit(ValueReader(value, draft), field.kind);
  if (!wrong) return std::nullopt;
  return Problem{std::move(*wrong), expected_text(field)};
}

std::optional<Json> written_value(const JobField& field, const JobDraft& draft) {
  JobDraft copy = draft;  // Slots are for writing; a job is small.
  return std::visit(
      Overloaded{
          [&](const IntegerKind& kind) -> std::optional<Json> {
            const std::int64_t value = kind.slot(copy);
            return kind.automatic && value == 0 ? Json("auto") : Json(value);
          },
          [&](const SeedKind& kind) -> std::optional<Json> {
            return Json(static_cast<std::int64_t>(kind.slot(copy)));
          },
          [&](const RealKind& kind) -> std::optional<Json> { return Json(kind.slot(copy)); },
          [&](const SecondsKind& kind) -> std::optional<Json> {
            return Json(kind.slot(copy).count());
          },
          [&](const BytesKind& kind) -> std::optional<Json> {
            return Json(kind.slot(copy).count());
          },
          [&](const BoolKind& kind) -> std::optional<Json> { return Json(kind.slot(copy)); },
          [&](const NameKind& kind) -> std::optional<Json> { return Json(kind.slot(copy)); },
          [&](const PathKind& kind) -> std::optional<Json> { return Json(kind.slot(copy)); },
          [&](const PathsKind& kind) -> std::optional<Json> {
            Json paths = Json::array();
            for (const std::string& path : kind.slot(copy)) paths.push(Json(path));
            return paths;
          },
          [&](const ChoiceKind& kind) -> std::optional<Json> { return Json(kind.get(copy)); },
          [](const FixedKind&) -> std::optional<Json> { return std::nullopt; }},
      field.kind);
}

std::string expected_text(const JobField& field) { return std::visit(Expected(), field.kind); }

}  // namespace quadrille::internal
