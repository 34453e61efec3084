// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/evaluation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "infer/forward_memory.h"
#include "quadrille/data/batch.h"
#include "quadrille/data/corpus.h"

namespace quadrille::internal {
namespace {

constexpr std::int64_t kTokensTogether = 2048;

/// The data to evaluate, and which part of it.
struct Subject {
  std::unique_ptr<Corpus> corpus;
  DataPart part = DataPart::kTrain;
  std::int64_t samples = 0;
};

/// Files that the caller named are no key of a job.
Error of_files(Error error) {
  if (!error.diagnostics.empty()) error.message = "the data to evaluate cannot be used";
  for (Diagnostic& diagnostic : error.diagnostics) {
    if (diagnostic.path.starts_with("data.train")) diagnostic.path.clear();
  }
  return error;
}

Result<Subject> open_subject(const InferenceModel& model, const std::vector<std::string>& files) {
  JobSpec job = model.job;
  Subject subject;
  if (files.empty()) {
    subject.part = DataPart::kValidation;
  } else {
    job.data.train = files;
    job.data.validation = {};
    job.data.validation_fraction = 0;
    job.training.global_batch = 1;  // a file may be shorter than a training step
  }
  auto corpus = Corpus::open(job);
  if (!corpus) return tl::unexpected(files.empty() ? corpus.error() : of_files(corpus.error()));
  subject.corpus = std::move(*corpus);
  subject.samples =
      files.empty() ? subject.corpus->validation().samples : subject.corpus->train().samples;
  if (subject.samples == 0) {
    return fail(Code::kInvalid, "the model's job has no validation data: name files to evaluate");
  }
  return subject;
}

/// Runs batches through all layers and adds up their losses.
class Evaluator {
 public:
  static Result<std::unique_ptr<Evaluator>> create(InferenceModel& model, std::int64_t samples) {
    std::unique_ptr<Evaluator> evaluator(new Evaluator(model));
    const std::int64_t sequence = model.job.training.sequence;
    const std::int64_t rows = std::clamp<std::int64_t>(kTokensTogether / sequence, 1, samples);
    QD_ASSIGN_OR_RETURN(evaluator->memory_,
                        ForwardMemory::create(model.job.model, {rows, sequence}, *model.pool));
    const Bytes ids = Bytes(rows * sequence) * element_bytes(DType::kI32);
    QD_ASSIGN_OR_RETURN(evaluator->tokens_,
                        model.pool->lease(ids, MemoryTag::kWorkspace, "tokens"));
    QD_ASSIGN_OR_RETURN(evaluator->targets_,
                        model.pool->lease(ids, MemoryTag::kWorkspace, "targets"));
    QD_ASSIGN_OR_RETURN(evaluator->loss_sum_,
                        model.pool->lease(Bytes(8), MemoryTag::kWorkspace, "loss"));
    evaluator->bind({rows, sequence});
    return evaluator;
  }
  ~Evaluator() { (void)model_.stream->synchronize(); }

  Result<LoadedModel::Evaluation> run(const Subject& subject) {
    const double zero = 0;
    write_all<double>(*model_.stream, context_.loss_sum, std::span(&zero, 1));
    const std::int64_t rows = context_.tokens.shape()[0];
    for (std::int64_t first = 0; first < subject.samples; first += rows) {
      upload(subject, first);
      for (std::int64_t layer = 0; layer < model_.model->layers(); ++layer) {
        QD_RETURN_IF_ERROR(model_.model->forward(layer, context_));
      }
    }
    QD_ASSIGN_OR_RETURN(const std::vector<double> sum,
                        read_all<double>(*model_.stream, context_.loss_sum));
    LoadedModel::Evaluation found;
    found.tokens = subject.samples * context_.tokens.shape()[1];
    found.loss = sum[0] / static_cast<double>(found.tokens);
    found.unigram_entropy = subject.corpus->unigram_entropy(subject.part);
    return found;
  }

 private:
  explicit Evaluator(InferenceModel& model) : model_(model) {}

  void bind(BatchShape batch) {
    context_.stream = model_.stream.get();
    context_.training = false;
    const Shape ids = {batch.micro_batch, batch.sequence};
    context_.tokens = tokens_.view(DType::kI32, ids);
    context_.targets = targets_.view(DType::kI32, ids);
    context_.loss_sum = loss_sum_.view(DType::kF64, {1});
    context_.activation = [this](std::int64_t layer, std::string_view name) {
      return memory_.view(layer, name);
    };
  }

  /// Samples from `first` on; rows past the last one do not count.
  void upload(const Subject& subject, std::int64_t first) {
    const std::int64_t rows = context_.tokens.shape()[0];
    const std::int64_t length = context_.tokens.shape()[1];
    std::vector<std::int32_t> sample(static_cast<std::size_t>(length) + 1);
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> targets;
    for (std::int64_t row = 0; row < rows && first + row < subject.samples; ++row) {
      subject.corpus->read(subject.part, first + row, sample);
      tokens.insert(tokens.end(), sample.begin(), sample.end() - 1);
      targets.insert(targets.end(), sample.begin() + 1, sample.end());
    }
    tokens.resize(static_cast<std::size_t>(rows * length), 0);
    targets.resize(static_cast<std::size_t>(rows * length), kIgnoredTarget);
    write_all<std::int32_t>(*model_.stream, context_.tokens, tokens);
    write_all<std::int32_t>(*model_.stream, context_.targets, targets);
  }

  InferenceModel& model_;
  ForwardMemory memory_;
  Lease tokens_;
  Lease targets_;
  Lease loss_sum_;
  LayerContext context_;
};

}  // namespace

Result<LoadedModel::Evaluation> evaluate_model(InferenceModel& model,
                                               const std::vector<std::string>& files) {
  QD_ASSIGN_OR_RETURN(const Subject subject, open_subject(model, files));
  QD_ASSIGN_OR_RETURN(const std::unique_ptr<Evaluator> evaluator,
                      Evaluator::create(model, subject.samples));
  return evaluator->run(subject);
}

}  // namespace quadrille::internal
