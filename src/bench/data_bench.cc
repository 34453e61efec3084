// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// How fast data reaches a step, and text becomes tokens.

#include <fmt/format.h>

#include <cstring>

#include "bench/folder.h"
#include "bench/products.h"
#include "quadrille/base/file.h"
#include "quadrille/bench/benchmarks.h"
#include "quadrille/data/batch.h"
#include "quadrille/data/corpus.h"
#include "quadrille/data/tokenizer.h"

namespace quadrille {
namespace {

constexpr StepTokens kBatch{16, 1024};

std::vector<double> rates(const std::vector<double>& seconds, double amount) {
  std::vector<double> all;
  for (const double each : seconds) all.push_back(amount / each);
  return all;
}

std::string made_up_text() {
  std::string text;
  for (int i = 0; i < 400'000; ++i) text += "word" + std::to_string(i % 5000) + " ";
  return text;
}

Result<BenchRow> batches(const std::string& folder, const BenchSetting& setting) {
  const std::string file = folder + "/tokens.bin";
  constexpr std::int64_t kVocab = 50257;
  QD_RETURN_IF_ERROR(internal::write_tokens(file, 4 << 20, kVocab));
  ModelSpec model = gpt2_124m();
  const JobSpec job = internal::bench_job(model, kBatch, 1, file);
  QD_ASSIGN_OR_RETURN(const auto corpus, Corpus::open(job));
  const BatchReader reader(*corpus, job);
  const auto elements = static_cast<std::size_t>(kBatch.sequences * kBatch.tokens);
  std::vector<std::int32_t> tokens(elements);
  std::vector<std::int32_t> targets(elements);
  std::vector<std::int32_t> copies(2 * elements);
  std::int64_t step = 0;
  const auto seconds = internal::time_interleaved(
      {[&] {
         reader.fill_train(step++, 0, {tokens, targets});
       },
       [&] {
         std::memcpy(copies.data(), tokens.data(), elements * sizeof(std::int32_t));
         std::memcpy(copies.data() + elements, targets.data(), elements * sizeof(std::int32_t));
       }},
      setting.repetitions);
  const std::vector<double> mine = rates(seconds[0], static_cast<double>(elements));
  const std::vector<double> copied = rates(seconds[1], static_cast<double>(elements));
  return BenchRow{.name = fmt::format("batches of {} x {} tokens, shuffled, one thread",
                                      kBatch.sequences, kBatch.tokens),
                  .unit = "tokens/s",
                  .value = figure_of(mine),
                  .more_is_better = true,
                  .peers = {{"copying their ids and targets", figure_of(copied),
                             ratio_of(mine, copied), std::nullopt}}};
}

}  // namespace

Result<BenchReport> bench_data(const DataBench& bench, const BenchSetting& setting) {
  QD_ASSIGN_OR_RETURN(BenchReport report, new_report("data"));
  QD_ASSIGN_OR_RETURN(const internal::BenchFolder folder, internal::BenchFolder::make(setting));
  QD_ASSIGN_OR_RETURN(const int threads, internal::threads_of(setting));
  setting.progress("data: batches");
  QD_ASSIGN_OR_RETURN(BenchRow row, batches(folder.path(), setting));
  report.rows.push_back(std::move(row));

  QD_ASSIGN_OR_RETURN(const auto tokenizer, make_tokenizer(bench.tokenizer));
  std::string text = made_up_text();
  if (!bench.text.empty()) {
    QD_ASSIGN_OR_RETURN(text, read_text_file(bench.text));
  }
  QD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> ids, tokenizer->encode(text));
  setting.progress("data: tokenizer");
  const auto bytes = static_cast<double>(text.size());
  const auto seconds = internal::time_interleaved(
      {[&] { static_cast<void>(tokenizer->encode(text)); },
       [&] { static_cast<void>(tokenizer->encode(text, {.threads = threads})); },
       [&] { static_cast<void>(tokenizer->decode(ids)); }},
      setting.repetitions);
  const std::string name = tokenizer->name();
  const std::vector<double> one = rates(seconds[0], bytes);
  const std::vector<double> many = rates(seconds[1], bytes);
  report.rows.push_back({.name = "encoding, " + name + ", one thread",
                         .unit = "B/s",
                         .value = figure_of(one),
                         .more_is_better = true,
                         .peers = {}});
  report.rows.push_back(
      {.name = fmt::format("encoding, {}, {} threads", name, threads),
       .unit = "B/s",
       .value = figure_of(many),
       .more_is_better = true,
       .peers = {{"one thread", figure_of(one), ratio_of(many, one), std::nullopt}}});
  report.rows.push_back({.name = "decoding, " + name,
                         .unit = "B/s",
                         .value = figure_of(rates(seconds[2], bytes)),
                         .more_is_better = true,
                         .peers = {}});
  report.notes.emplace_back(bench.text.empty() ? "The text is made up of 5,000 words."
                                               : "The tokenizer has seen the text before.");
  return report;
}

}  // namespace quadrille
