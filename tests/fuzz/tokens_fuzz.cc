// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// Corpora from any file: the first four bytes choose sequence, batch, vocabulary and validation
// fraction, the rest is the text. Whatever comes: no crash; a refusal with diagnostics; samples of
// an accepted corpus are its bytes, below the vocabulary.

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "quadrille/base/check.h"
#include "quadrille/data/batch.h"

namespace quadrille {
namespace {

void check_samples(const Corpus& corpus, DataPart part, std::int64_t samples, const JobSpec& job,
                   std::span<const std::uint8_t> part_text) {
  const std::int64_t sequence = job.training.sequence;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence + 1));
  for (std::int64_t i = 0; i < samples; ++i) {
    corpus.read(part, i, tokens);
    for (std::int64_t t = 0; t <= sequence; ++t) {
      const auto token = tokens[static_cast<std::size_t>(t)];
      QD_CHECK(token == part_text[static_cast<std::size_t>(i * sequence + t)]);
      QD_CHECK(token < job.model.vocab);
    }
  }
}

void open_any_corpus(std::span<const std::uint8_t> input) {
  if (input.size() < 4) return;
  JobSpec job;
  job.training.sequence = 1 + input[0] % 16;
  job.training.global_batch = 1 + input[1] % 8;
  job.model.vocab = 1 + input[2];
  job.data.validation_fraction = input[3] / 255.0;
  const auto text = input.subspan(4);
  const int descriptor = ::memfd_create("fuzz", MFD_CLOEXEC);
  QD_CHECK(descriptor >= 0);
  QD_CHECK(::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  job.data.train = {"/proc/self/fd/" + std::to_string(descriptor)};
  const auto corpus = Corpus::open(job);
  ::close(descriptor);
  if (!corpus) {
    QD_CHECK(corpus.error().code == Code::kInvalid);
    QD_CHECK(!corpus.error().diagnostics.empty());
    return;
  }
  const Dataset train = (*corpus)->train();
  const Dataset validation = (*corpus)->validation();
  QD_CHECK(train.tokens + validation.tokens == static_cast<std::int64_t>(text.size()));
  QD_CHECK(train.samples >= job.training.global_batch);
  const auto trained = static_cast<std::size_t>(train.tokens);
  check_samples(**corpus, DataPart::kTrain, train.samples, job, text.first(trained));
  check_samples(**corpus, DataPart::kValidation, validation.samples, job, text.subspan(trained));
  const double entropy = (*corpus)->unigram_entropy();
  QD_CHECK(entropy >= 0 && entropy <= std::log(256.0) + 1e-9);
}

}  // namespace
}  // namespace quadrille

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quadrille::open_any_corpus({data, size});
  return 0;
}
