// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/data/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "data/document_source.h"
#include "data/token_writer.h"
#include "quadrille/base/check.h"

namespace quadrille {
namespace {

using internal::DocumentSource;
using internal::DocumentWork;
using internal::encode_documents;
using internal::EncodedDocuments;
using internal::TokenWidth;
using internal::TokenWriter;

constexpr std::size_t kStreamed = 8 << 20;  ///< A longer text is encoded in parts of this size.
constexpr std::int64_t kMostTwoByteIds = 65536;

/// Encodes all work at once, each by one of `threads`; results in the order of the work.
std::vector<Result<EncodedDocuments>> encode_all(const std::vector<DocumentWork>& work,
                                                 const Tokenizer& tokenizer,
                                                 const PrepareOptions& options) {
  std::vector<Result<EncodedDocuments>> results(work.size());
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < work.size(); i = next++) {
      results[i] = encode_documents(work[i], tokenizer, options.field);
    }
  };
  std::vector<std::thread> threads;
  const std::size_t more = std::min(static_cast<std::size_t>(options.threads), work.size());
  for (std::size_t i = 1; i < more; ++i) threads.emplace_back(run);
  run();
  for (std::thread& thread : threads) thread.join();
  return results;
}

class Preparer {
 public:
  Preparer(const PrepareOptions& options, std::unique_ptr<Tokenizer> tokenizer)
      : options_(options), tokenizer_(std::move(tokenizer)) {
    outcome_.tokenizer = record_of(*tokenizer_, options.tokenizer);
    outcome_.bytes_per_token = outcome_.tokenizer.vocabulary <= kMostTwoByteIds ? 2 : 4;
  }

  Result<PrepareOutcome> run() {
    QD_ASSIGN_OR_RETURN(DocumentSource source, DocumentSource::open(options_));
    progress_.bytes_total = source.bytes();
    std::vector<DocumentWork> batch;
    for (auto work = source.next(); work; work = source.next()) {
      const bool streamed = !work->json_lines && work->text.size() > kStreamed;
      if (!streamed) batch.push_back(*work);
      if (streamed || batch.size() >= 4 * static_cast<std::size_t>(options_.threads)) {
        QD_RETURN_IF_ERROR(write_batch(batch));
      }
      if (streamed) QD_RETURN_IF_ERROR(write_streamed(work->text));
    }
    QD_RETURN_IF_ERROR(write_batch(batch));
    return commit();
  }

 private:
  /// A document begins: in this file, or in the next where this one is long enough.
  Result<void> begin_document() {
    const bool full = options_.shard_tokens > 0 && !writers_.empty() &&
                      writers_.back()->tokens() >= options_.shard_tokens;
    if (full) QD_RETURN_IF_ERROR(writers_.back()->finish());
    if (full || writers_.empty()) {
      QD_ASSIGN_OR_RETURN(
          std::unique_ptr<TokenWriter> writer,
          TokenWriter::create(path_of(writers_.size()), TokenWidth(outcome_.bytes_per_token)));
      writers_.push_back(std::move(writer));
    }
    ++progress_.documents;
    return writers_.back()->begin_document(tokenizer_->end_of_text());
  }

  Result<void> write_batch(std::vector<DocumentWork>& batch) {
    const auto results = encode_all(batch, *tokenizer_, options_);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!results[i]) return fail(results[i].error());
      QD_RETURN_IF_ERROR(write_documents(*results[i]));
      QD_RETURN_IF_ERROR(report(batch[i].text.size()));
    }
    batch.clear();
    return {};
  }

  Result<void> write_documents(const EncodedDocuments& documents) {
    std::span<const std::int32_t> rest = documents.ids;
    for (const std::int64_t length : documents.lengths) {
      if (length == 0) {
        ++outcome_.empty_documents;
        continue;
      }
      QD_RETURN_IF_ERROR(begin_document());
      QD_RETURN_IF_ERROR(add(rest.first(static_cast<std::size_t>(length))));
      rest = rest.subspan(static_cast<std::size_t>(length));
    }
    return {};
  }

  Result<void> write_streamed(std::string_view text) {
    StreamingEncoder encoder(*tokenizer_, {.threads = options_.threads});
    QD_RETURN_IF_ERROR(begin_document());
    while (!text.empty()) {
      const std::string_view part = text.substr(0, kStreamed);
      QD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> ids, encoder.feed(part));
      QD_RETURN_IF_ERROR(add(ids));
      text.remove_prefix(part.size());
      QD_RETURN_IF_ERROR(report(part.size()));
    }
    QD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> last, encoder.finish());
    return add(last);
  }

  Result<void> add(std::span<const std::int32_t> ids) {
    progress_.tokens += static_cast<std::int64_t>(ids.size());
    return writers_.back()->add(ids);
  }

  Result<void> report(std::size_t bytes) {
    progress_.bytes_done += static_cast<std::int64_t>(bytes);
    if (!options_.progress || options_.progress(progress_)) return {};
    return fail(Code::kAborted, "stopped; nothing was written");
  }

  Result<PrepareOutcome> commit() {
    if (writers_.empty()) return fail(Code::kInvalid, "the inputs hold no text");
    QD_RETURN_IF_ERROR(writers_.back()->finish());
    for (const auto& writer : writers_) {
      QD_RETURN_IF_ERROR(writer->commit(outcome_.tokenizer, options_.inputs));
      outcome_.files.push_back({writer->path(), writer->tokens(), writer->documents()});
      outcome_.tokens += writer->tokens();
      outcome_.documents += writer->documents();
      outcome_.largest_id = std::max(outcome_.largest_id, writer->largest_id());
    }
    return std::move(outcome_);
  }

  [[nodiscard]] std::string path_of(std::size_t shard) const {
    if (options_.shard_tokens == 0) return options_.output;
    const std::string stem = options_.output.substr(0, options_.output.size() - 4);
    return fmt::format("{}-{:05}.bin", stem, shard);
  }

  const PrepareOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::unique_ptr<TokenWriter>> writers_;
  PrepareProgress progress_;
  PrepareOutcome outcome_;
};

}  // namespace

Result<PrepareOutcome> prepare_tokens(const PrepareOptions& options) {
  QD_CHECK(options.threads >= 1);
  QD_CHECK(options.shard_tokens >= 0);
  if (options.inputs.empty()) return fail(Code::kInvalid, "no inputs; expected files of text");
  if (!options.output.ends_with(".bin") || options.output.size() < 5) {
    return fail(Code::kInvalid, fmt::format("\"{}\" does not end in .bin; expected FILE.bin, which "
                                            "tells token files from text",
                                            options.output));
  }
  // A .idx there would make a Megatron pair of what is written.
  const std::string index = options.output.substr(0, options.output.size() - 4) + ".idx";
  if (std::error_code ignored; std::filesystem::exists(index, ignored)) {
    return fail(Code::kInvalid, fmt::format("\"{}\" exists and belongs to another \"{}\"; expected "
                                            "another name",
                                            index, options.output));
  }
  QD_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, make_tokenizer(options.tokenizer));
  return Preparer(options, std::move(tokenizer)).run();
}

}  // namespace quadrille
