// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/data/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "data/opened_file.h"
#include "quadrille/base/check.h"
#include "quadrille/base/hash.h"
#include "quadrille/base/text.h"

namespace quadrille {
namespace {

using internal::bytes_of;
using internal::OpenedFile;
using internal::TokenRun;

/// The tokenizer to decode with, if one is known; says why not where it ought to be.
Result<std::unique_ptr<Tokenizer>> find_tokenizer(const OpenedFile& file,
                                                  const InspectOptions& options,
                                                  std::vector<std::string>& warnings) {
  std::string name = options.tokenizer;
  if (name.empty() && file.sidecar) name = file.sidecar->tokenizer.name;
  if (name.empty()) return nullptr;
  auto tokenizer = make_tokenizer(name);
  if (!tokenizer) {
    if (!options.tokenizer.empty()) return fail(tokenizer.error());
    warnings.push_back(fmt::format("the tokenizer \"{}\" that made the ids is not here", name));
    return nullptr;
  }
  const TokenizerRecord record = record_of(**tokenizer, name);
  if (!file.sidecar || file.sidecar->tokenizer.hash == record.hash) return tokenizer;
  const std::string said =
      fmt::format("\"{}\" has tokens of {}, but the tokenizer here is {}", file.path,
                  file.sidecar->tokenizer.to_text(), record.to_text());
  if (!options.tokenizer.empty()) return fail(Code::kInvalid, said);
  warnings.push_back(said);
  return nullptr;
}

/// The first tokens of each of the first documents.
class DocumentReader {
 public:
  DocumentReader(const OpenedFile& file, const InspectOptions& options, const Tokenizer* tokenizer)
      : file_(file), options_(options), tokenizer_(tokenizer) {}

  std::vector<DocumentView> run() {
    if (file_.index) {
      from_index();
    } else if (file_.sidecar && !file_.sidecar->document_starts.empty()) {
      from_sidecar();
    } else {
      begin();
      add(file_.tokens());
      decode();
    }
    return std::move(views_);
  }

 private:
  void from_index() {
    const std::int64_t most = std::min(options_.documents, file_.index->documents());
    for (std::int64_t document = 0; document < most; ++document) {
      begin();
      const std::int64_t end = file_.index->document(document + 1);
      for (std::int64_t i = file_.index->document(document); i < end; ++i) add(file_.sequence(i));
      decode();
    }
  }

  void from_sidecar() {
    const std::vector<std::int64_t>& starts = file_.sidecar->document_starts;
    const TokenRun all = file_.tokens();
    for (std::size_t i = 0; i < starts.size() && wants_more(); ++i) {
      const bool last = i + 1 == starts.size();
      const std::int64_t end = last ? all.tokens : starts[i + 1];
      begin();
      add(all.part(starts[i], end - starts[i]));
      decode();
    }
  }

  [[nodiscard]] bool wants_more() const {
    return static_cast<std::int64_t>(views_.size()) < options_.documents;
  }
  void begin() { views_.emplace_back(); }
  void add(const TokenRun& run) {
    DocumentView& view = views_.back();
    view.tokens += run.tokens;
    const auto room = options_.tokens - static_cast<std::int64_t>(view.front.size());
    const TokenRun front = run.part(0, std::min(room, run.tokens));
    for (std::int64_t i = 0; i < front.tokens; ++i) {
      view.front.push_back(static_cast<std::int32_t>(internal::token_at(front, i)));
    }
  }
  void decode() {
    if (tokenizer_ == nullptr) return;
    DocumentView& view = views_.back();
    std::string text = tokenizer_->decode(view.front);
    const bool cut = static_cast<std::int64_t>(view.front.size()) < view.tokens;
    // A front may end within a character, which has four bytes at most.
    for (int i = 0; cut && i < 3 && !is_utf8(text); ++i) text.pop_back();
    view.text = std::move(text);
  }

  const OpenedFile& file_;
  const InspectOptions& options_;
  const Tokenizer* tokenizer_;
  std::vector<DocumentView> views_;
};

void check_sidecar(const OpenedFile& file, const TokenFileFacts& facts,
                   std::vector<std::string>& warnings) {
  if (!file.sidecar) {
    if (file.format != TokenFormat::kText) {
      warnings.push_back("no sidecar: which tokenizer made the ids is not recorded");
    }
    return;
  }
  if (file.sidecar->hash != facts.hash || file.sidecar->largest_id != facts.largest_id ||
      file.sidecar->tokens != facts.tokens) {
    warnings.push_back(
        fmt::format("the sidecar was written for other bytes: hash {}, {} tokens, largest id {}",
                    file.sidecar->hash, grouped(file.sidecar->tokens), file.sidecar->largest_id));
  }
}

}  // namespace

Result<TokenFileFacts> inspect_token_file(const std::string& path, const InspectOptions& options) {
  QD_CHECK(options.documents >= 0 && options.tokens >= 0);
  QD_ASSIGN_OR_RETURN(const OpenedFile file, internal::open_data_file(path));
  TokenFileFacts facts;
  facts.path = file.data.path();
  facts.format = file.format;
  facts.bytes = static_cast<std::int64_t>(file.data.bytes().size());
  const TokenRun all = file.tokens();
  facts.bytes_per_token = bytes_of(all.width);
  facts.tokens = file.index ? file.index->tokens() : all.tokens;
  facts.largest_id = internal::largest_token(all);
  facts.hash = hash_text(hash64(file.data.bytes()));
  if (file.index) facts.documents = file.index->documents();
  if (file.format == TokenFormat::kText) facts.documents = 1;
  if (file.sidecar) {
    facts.documents = file.sidecar->documents;
    facts.tokenizer = file.sidecar->tokenizer;
    facts.sources = file.sidecar->sources;
  }
  check_sidecar(file, facts, facts.warnings);
  InspectOptions effective = options;
  if (file.format == TokenFormat::kText) effective.tokenizer = "bytes";
  QD_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                      find_tokenizer(file, effective, facts.warnings));
  if (effective.documents > 0) {
    facts.first_documents = DocumentReader(file, effective, tokenizer.get()).run();
  }
  return facts;
}

Json to_json(const TokenFileFacts& facts) {
  Json json = Json::object();
  json.set("path", facts.path)
      .set("format", kTokenFormatText.text(facts.format))
      .set("bytes", facts.bytes)
      .set("bytes_per_token", facts.bytes_per_token)
      .set("tokens", facts.tokens)
      .set("documents", facts.documents ? Json(*facts.documents) : Json())
      .set("largest_id", facts.largest_id)
      .set("hash", facts.hash);
  Json& tokenizer = json.at_or_insert("tokenizer");
  if (facts.tokenizer) {
    tokenizer.set("name", facts.tokenizer->name)
        .set("hash", facts.tokenizer->hash)
        .set("vocabulary", facts.tokenizer->vocabulary);
  }
  Json& sources = json.at_or_insert("sources") = Json::array();
  for (const std::string& source : facts.sources) sources.push(source);
  Json& documents = json.at_or_insert("first_documents") = Json::array();
  for (const DocumentView& view : facts.first_documents) {
    Json ids = Json::array();
    for (const std::int32_t id : view.front) ids.push(std::int64_t{id});
    // JSON text is UTF-8; a front may end, or bytes be cut, within a character.
    const bool sayable = view.text && is_utf8(*view.text);
    documents.push(Json::object()
                       .set("tokens", view.tokens)
                       .set("ids", std::move(ids))
                       .set("text", sayable ? Json(*view.text) : Json()));
  }
  Json& warnings = json.at_or_insert("warnings") = Json::array();
  for (const std::string& warning : facts.warnings) warnings.push(warning);
  return json;
}

}  // namespace quadrille
