// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/document_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "data/opened_file.h"
#include "quadrille/base/json.h"
#include "quadrille/base/text.h"

namespace quadrille::internal {
namespace {

constexpr std::size_t kWorkBytes = 1 << 20;

bool are_json_lines(const std::string& path, InputFormat format) {
  if (format != InputFormat::kAuto) return format == InputFormat::kJsonLines;
  return path.ends_with(".jsonl") || path.ends_with(".ndjson");
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// What a line holds besides the field that was asked for.
std::string fields_of(const Json& line) {
  std::vector<std::string> names;
  for (const auto& [key, value] : line.members()) names.push_back("\"" + key + "\"");
  return names.empty() ? "an empty object" : join(names, ", ");
}

/// The document of one line. Errors: kInvalid, a diagnostic about the field.
Result<std::string> document_of(std::string_view line, const std::string& place,
                                const std::string& field) {
  auto json = parse_json(line, {.file = place});
  if (!json) {
    // Each line is a text of its own to the parser; its number is in `place`.
    Error error = json.error();
    for (Diagnostic& diagnostic : error.diagnostics) diagnostic.line = 0;
    return fail(std::move(error));
  }
  const Json* value = json->find(field);
  if (value != nullptr && value->is_string()) return value->as_string();
  Error error{Code::kInvalid, "a line of JSON cannot be read as a document", {}};
  std::string wrong = fmt::format("is {}", to_text(json->kind()));
  if (json->is_object()) wrong = fmt::format("has {}", fields_of(*json));
  if (value != nullptr) wrong = fmt::format("has {} as \"{}\"", to_text(value->kind()), field);
  error.diagnostics.push_back(
      {place, 0, "", wrong, fmt::format("an object with text as \"{}\" (--field)", field)});
  return fail(std::move(error));
}

Result<void> encode_into(EncodedDocuments& out, std::string_view text, const Tokenizer& tokenizer) {
  QD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> ids, tokenizer.encode(text));
  out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  out.lengths.push_back(static_cast<std::int64_t>(ids.size()));
  return {};
}

}  // namespace

Result<DocumentSource> DocumentSource::open(const PrepareOptions& options) {
  DocumentSource source;
  for (const std::string& path : options.inputs) {
    QD_ASSIGN_OR_RETURN(OpenedFile file, open_data_file(path));
    if (file.format != TokenFormat::kText) {
      return fail(Code::kInvalid, fmt::format("\"{}\" is a token file already; expected text or "
                                              "lines of JSON",
                                              path));
    }
    source.bytes_ += static_cast<std::int64_t>(file.data.bytes().size());
    source.inputs_.push_back({std::move(file.data), are_json_lines(path, options.format)});
  }
  return source;
}

std::optional<DocumentWork> DocumentSource::next() {
  if (input_ == inputs_.size()) return std::nullopt;
  const Input& input = inputs_[input_];
  const std::string_view rest = text_of(input.file).substr(position_);
  DocumentWork work{rest, &input.file.path(), line_, input.json_lines};
  if (input.json_lines && rest.size() > kWorkBytes) {
    const std::size_t end = rest.find('\n', kWorkBytes);
    if (end != std::string_view::npos) work.text = rest.substr(0, end + 1);
  }
  position_ += work.text.size();
  line_ += std::count(work.text.begin(), work.text.end(), '\n');
  if (work.text.size() == rest.size()) {
    ++input_;
    position_ = 0;
    line_ = 1;
  }
  return work;
}

Result<EncodedDocuments> encode_documents(const DocumentWork& work, const Tokenizer& tokenizer,
                                          const std::string& field) {
  EncodedDocuments out;
  if (!work.json_lines) {
    QD_RETURN_IF_ERROR(encode_into(out, work.text, tokenizer));
    return out;
  }
  std::int64_t number = work.first_line;
  for (std::string_view rest = work.text; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
    const std::string_view line = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
    if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) continue;
    QD_ASSIGN_OR_RETURN(const std::string text,
                        document_of(line, fmt::format("{}:{}", *work.path, number), field));
    QD_RETURN_IF_ERROR(encode_into(out, text, tokenizer));
  }
  return out;
}

}  // namespace quadrille::internal
