// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/rank_base.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "quadrille/base/check.h"
#include "quadrille/kernels/reduction.h"

namespace quadrille::internal {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::int64_t value_bytes(const TrainedTensor& tensor) {
  return aligned(tensor.shape.elements() * element_bytes(DType::kF32));
}

Result<void> bind_gradients(RankBase& base, std::span<const int> backward_order) {
  std::vector<GradientEntry> entries;
  base.entry_of_tensor.assign(base.tensors.size(), -1);
  for (const int index : backward_order) {
    const TrainedTensor& tensor = base.tensors[static_cast<std::size_t>(index)];
    base.entry_of_tensor[static_cast<std::size_t>(index)] = static_cast<int>(entries.size());
    entries.push_back({.name = tensor.name,
                       .shape = tensor.shape,
                       .contributions = tensor.contributions,
                       .overwritten = tensor.overwritten});
  }
  QD_CHECK_MSG(entries.size() == base.tensors.size(), "backward completes every parameter once");
  const GradientBucketOptions options{.group = &base.world->whole(),
                                      .stream = base.stream.get(),
                                      .pool = base.pool.get(),
                                      .bucket = base.plan->job.communication.bucket};
  QD_ASSIGN_OR_RETURN(base.buckets, GradientBuckets::create(options, entries));
  for (std::size_t i = 0; i < base.tensors.size(); ++i) {
    base.tensors[i].gradient = base.buckets->gradient(base.entry_of_tensor[i]);
  }
  return {};
}

Result<void> bind_optimizer(RankBase& base) {
  std::vector<OptimizedTensor> optimized;
  for (const TrainedTensor& tensor : base.tensors) {
    optimized.push_back({tensor.name, tensor.value, tensor.gradient, tensor.decayed});
  }
  QD_ASSIGN_OR_RETURN(base.optimizer, AdamWOptimizer::create(base.plan->job.training, *base.stream,
                                                             *base.pool, std::move(optimized)));
  return {};
}

Result<void> bind_batch(RankBase& base) {
  const std::int64_t batch = base.plan->micro_batch;
  const std::int64_t sequence = base.plan->job.training.sequence;
  const std::int64_t ids = aligned(batch * sequence * element_bytes(DType::kI32));
  QD_ASSIGN_OR_RETURN(base.batch_lease, base.pool->lease(Bytes(2 * ids + kAlignment),
                                                         MemoryTag::kWorkspace, "the batch"));
  base.tokens = base.batch_lease.view_at(Bytes(0), DType::kI32, {batch, sequence});
  base.targets = base.batch_lease.view_at(Bytes(ids), DType::kI32, {batch, sequence});
  base.loss_sum = base.batch_lease.view_at(Bytes(2 * ids), DType::kF64, {1});
  return {};
}

/// What the run trains on, for whoever asks later; warnings also in the log.
void record_data(const RankBase& base) {
  if (!base.is_first()) return;
  const TokenizerRecord& tokenizer = base.corpus->tokenizer_record();
  Json warnings = Json::array();
  for (const std::string& warning : base.corpus->warnings()) {
    base.options.log->warning(warning);
    warnings.push(warning);
  }
  base.options.events->record("data_opened", 0,
                              Json::object()
                                  .set("train_tokens", base.corpus->train().tokens)
                                  .set("validation_tokens", base.corpus->validation().tokens)
                                  .set("tokenizer", tokenizer.name)
                                  .set("tokenizer_hash", tokenizer.hash)
                                  .set("vocabulary", tokenizer.vocabulary)
                                  .set("warnings", std::move(warnings)));
}

/// Beside the checkpoints, so that a run that has moved, or whose tokenizer has, still generates.
Result<void> keep_tokenizer(const RankBase& base) {
  const Tokenizer& tokenizer = base.corpus->tokenizer();
  if (!base.is_first() || tokenizer.files().empty()) return {};
  const std::string folder =
      checkpoint_directory(*base.plan, base.options.run_directory) + "/tokenizer";
  if (const auto kept = make_tokenizer(folder); kept && (*kept)->hash() == tokenizer.hash()) {
    return {};
  }
  return copy_tokenizer(tokenizer, folder);
}

}  // namespace

Result<void> open_base(RankBase& base, World& world, const TrainerOptions& options) {
  base.plan = options.plan;
  base.world = &world;
  base.options = options;
  QD_ASSIGN_OR_RETURN(base.corpus, Corpus::open(options.plan->job));
  record_data(base);
  base.stream = options.device->make_stream();
  base.stream->observe(options.profiler);
  QD_ASSIGN_OR_RETURN(base.pool,
                      Pool::create({.device = options.device,
                                    .limit = options.plan->rank_limit,
                                    .name = "rank " + std::to_string(world.rank().value) + ", " +
                                            options.device->name()}));
  return bind_batch(base);
}

Result<void> bind_values(RankBase& base) {
  std::int64_t total = 0;
  for (const TrainedTensor& tensor : base.tensors) total += value_bytes(tensor);
  QD_ASSIGN_OR_RETURN(base.parameter_lease,
                      base.pool->lease(Bytes(total), MemoryTag::kParameter, "the parameters"));
  std::int64_t offset = 0;
  for (TrainedTensor& tensor : base.tensors) {
    tensor.value = base.parameter_lease.view_at(Bytes(offset), DType::kF32, tensor.shape);
    offset += value_bytes(tensor);
  }
  return {};
}

Result<void> bind_training(RankBase& base, std::span<const int> backward_order) {
  QD_RETURN_IF_ERROR(bind_gradients(base, backward_order));
  QD_RETURN_IF_ERROR(bind_optimizer(base));
  const CheckpointSpec& checkpoint = base.plan->job.checkpoint;
  QD_ASSIGN_OR_RETURN(
      base.saver, CheckpointSaver::create(
                      {.directory = checkpoint_directory(*base.plan, base.options.run_directory),
                       .keep = checkpoint.keep,
                       .keep_best = checkpoint.keep_best,
                       .asynchronous = checkpoint.asynchronous,
                       .rank = base.world->rank(),
                       .ranks = base.world->size(),
                       .stream = base.stream.get(),
                       .pool = base.pool.get(),
                       .events = base.options.events},
                      checkpoint_tensors(base)));
  return keep_tokenizer(base);
}

std::vector<CheckpointTensor> checkpoint_tensors(const RankBase& base) {
  std::vector<CheckpointTensor> all;
  for (std::size_t i = 0; i < base.tensors.size(); ++i) {
    const std::string& name = base.tensors[i].name;
    const int index = static_cast<int>(i);
    all.push_back({name, base.tensors[i].value});
    all.push_back({"optimizer.first_moment." + name, base.optimizer->first_moment(index)});
    all.push_back({"optimizer.second_moment." + name, base.optimizer->second_moment(index)});
  }
  return all;
}

Result<void> contribute(RankBase& base, int index) {
  return base.buckets->contribute(base.entry_of_tensor[static_cast<std::size_t>(index)]);
}

std::string checkpoint_directory(const Plan& plan, const std::string& run_directory) {
  const std::string& chosen = plan.job.checkpoint.directory;
  return chosen.empty() ? run_directory + "/checkpoints" : chosen;
}

Result<void> agree_on(World& world, const Result<void>& mine) {
  Vote vote;
  if (!mine) vote.error = mine.error();
  QD_ASSIGN_OR_RETURN(const Agreement agreement, world.agree(vote));
  if (agreement.error) return fail(*agreement.error);
  return {};
}

void clear_loss(RankBase& base) {
  constexpr std::array<double, 1> kZero{0};
  write_all<double>(*base.stream, base.loss_sum, kZero);
}

Result<std::int64_t> count_nonfinite(RankBase& base, const TensorView& view) {
  clear_loss(base);
  kernels::add_count_of_nonfinite(*base.stream, view, base.loss_sum);
  QD_ASSIGN_OR_RETURN(const std::vector<double> count,
                      read_all<double>(*base.stream, base.loss_sum));
  return static_cast<std::int64_t>(count[0]);
}

Result<std::optional<std::string>> first_bad_value(RankBase& base) {
  for (const TrainedTensor& tensor : base.tensors) {
    QD_ASSIGN_OR_RETURN(const std::int64_t bad, count_nonfinite(base, tensor.value));
    if (bad == 0) continue;
    return fmt::format("parameter {} ({} of {} elements)", tensor.name, bad,
                       tensor.value.elements());
  }
  return std::nullopt;
}

}  // namespace quadrille::internal
