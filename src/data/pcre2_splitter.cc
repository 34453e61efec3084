// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/pcre2_splitter.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "data/utf8.h"
#include "quadrille/base/check.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace quadrille::internal {

const std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

constexpr std::size_t kWordsAtOnce = 8192;
constexpr std::size_t kLargeStack = std::size_t{64} << 20;
constexpr std::uint32_t kMatchLimit = 100'000'000;

// Unicode's white space. PCRE2's \s has U+180E beside it, which Unicode 6.3 took out.
constexpr std::string_view kSpaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

/// The pattern with \s and \S written out (but for \S inside of brackets, which nobody writes).
std::string with_unicode_spaces(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's') {
        out += in_class ? std::string(kSpaces) : fmt::format("[{}]", kSpaces);
      } else if (escaped == 'S' && !in_class) {
        out += fmt::format("[^{}]", kSpaces);
      } else {
        out += {c, escaped};
      }
      continue;
    }
    out += c;
    if (c == '[' && !in_class) {
      in_class = true;
      // A bracket that closes at once is a member: []abc], [^]abc].
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];
    } else if (c == ']') {
      in_class = false;
    }
  }
  return out;
}

std::string words_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

/// Patterns whose words have a space only in front or among white space. The last two are GPT-4's
/// way of writing Llama 3's, and the same with single digits.
bool is_known_to_cut_before_space(std::string_view pattern) {
  constexpr std::string_view kGpt4 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
      R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
  constexpr std::string_view kSingleDigits =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
      R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  return pattern == kGpt2Pattern || pattern == kLlama3Pattern || pattern == kGpt4 ||
         pattern == kSingleDigits;
}

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

}  // namespace

struct Splitter::Pattern {
  std::unique_ptr<pcre2_code, Free> code;
};

Splitter::Splitter() : compiled_(std::make_unique<Pattern>()) {}
Splitter::Splitter(Splitter&&) noexcept = default;
Splitter& Splitter::operator=(Splitter&&) noexcept = default;
Splitter::~Splitter() = default;

Result<Splitter> Splitter::create(std::string_view pattern) {
  Splitter splitter;
  const std::string written = with_unicode_spaces(pattern);
  int error = 0;
  PCRE2_SIZE place = 0;
  splitter.compiled_->code.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(written.data()), written.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr));
  pcre2_code* code = splitter.compiled_->code.get();
  if (code == nullptr) {
    return fail(Code::kInvalid,
                fmt::format("{} at {} of the split pattern {}", words_of(error), place, written));
  }
  std::uint32_t behind = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MAXLOOKBEHIND, &behind);
  if (behind > 0) {
    return fail(Code::kInvalid, "the split pattern looks behind: " + std::string(pattern));
  }
  // Where a system forbids code made at run time, the matcher interprets: slower, and the same.
  (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  splitter.cuts_before_space_ = is_known_to_cut_before_space(pattern);
  return splitter;
}

struct WordCursor::Match {
  explicit Match(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    QD_CHECK(data != nullptr);
    QD_CHECK(context != nullptr);
    pcre2_set_match_limit(context.get(), kMatchLimit);
  }

  /// Tries again on a large stack where the usual one is too small.
  int run(const pcre2_code* code, std::string_view subject, std::size_t from, bool open) {
    const std::uint32_t options =
        PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | (open ? PCRE2_PARTIAL_HARD : 0U);
    const auto attempt = [&] {
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), from,
                         options, data.get(), context.get());
    };
    const int found = attempt();
    if (found != PCRE2_ERROR_JIT_STACKLIMIT || stack != nullptr) return found;
    stack.reset(pcre2_jit_stack_create(std::size_t{1} << 15, kLargeStack, nullptr));
    if (stack == nullptr) return found;
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    return attempt();
  }

  std::unique_ptr<pcre2_match_data, Free> data;
  std::unique_ptr<pcre2_jit_stack, Free> stack;
  std::unique_ptr<pcre2_match_context, Free> context;
};

WordCursor::WordCursor(const Splitter& splitter, std::string_view text, bool last)
    : splitter_(splitter),
      text_(text),
      last_(last),
      match_(std::make_unique<Match>(splitter.compiled_->code.get())) {}
WordCursor::~WordCursor() = default;

void WordCursor::begin_segment() {
  segment_ = place_;
  segment_end_ = place_ + valid_utf8_prefix(text_.substr(place_));
}

Result<bool> WordCursor::step_in_segment() {
  const std::string_view rest = text_.substr(segment_end_);
  const bool open = !last_ && (rest.empty() || may_become_character(rest));
  const std::string_view subject = text_.substr(segment_, segment_end_ - segment_);
  const int found = match_->run(splitter_.compiled_->code.get(), subject, place_ - segment_, open);
  if (found == PCRE2_ERROR_PARTIAL) return false;
  if (found == PCRE2_ERROR_NOMATCH) {
    if (open) return false;
    ends_.push_back(segment_end_);
    place_ = segment_end_;
    return true;
  }
  if (found < 0) {
    return fail(Code::kInvalid,
                fmt::format("the tokenizer's split pattern fails {} bytes into {}: {}", place_,
                            text_.size(), words_of(found)));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match_->data.get());
  const std::size_t begin = segment_ + bounds[0];
  const std::size_t end = segment_ + bounds[1];
  if (begin < place_ || end <= begin) {
    return fail(Code::kInvalid, "the tokenizer's split pattern moves the start of its match");
  }
  if (begin > place_) ends_.push_back(begin);
  ends_.push_back(end);
  place_ = end;
  return true;
}

Result<bool> WordCursor::step() {
  if (place_ == text_.size()) return false;
  if (place_ == segment_end_) begin_segment();
  if (segment_end_ > place_) return step_in_segment();
  if (!last_ && may_become_character(text_.substr(place_))) return false;
  ends_.push_back(++place_);
  segment_end_ = place_;
  return true;
}

Result<std::span<const std::size_t>> WordCursor::next() {
  ends_.clear();
  while (ends_.size() < kWordsAtOnce) {
    QD_ASSIGN_OR_RETURN(const bool more, step());
    if (!more) break;
  }
  return std::span<const std::size_t>(ends_);
}

}  // namespace quadrille::internal
