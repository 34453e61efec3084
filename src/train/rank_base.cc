// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/rank_base.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "quadrille/base/check.h"
#include "quadrille/kernels/reduction.h"

namespace quadrille::internal {
/// The values of a piece of this rank's slices.
TensorView own_piece(const RankBase& base, const FlatPiece& piece) {
  const Extent slice = base.buckets->layout().slice(piece.bucket, base.data_group->rank().value,
                                                    base.data_group->size());
  return own_values(base, piece.bucket).flat(piece.first - slice.first, piece.of_tensor.length);
}

std::size_t tensor_of(const RankBase& base, const FlatPiece& piece) {
  const auto& entries = base.entry_of_tensor;
  return static_cast<std::size_t>(std::find(entries.begin(), entries.end(), piece.tensor) -
                                  entries.begin());
}

namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Bytes bytes_of(std::int64_t elements) { return Bytes(elements) * element_bytes(DType::kF32); }

/// Values lie in the layout of the gradients, so that a slice of one is a slice of the other; where
/// ranks read each other's, in memory that they reach.
Result<void> bind_values(RankBase& base) {
  constexpr const char* kWhat = "the parameters";
  const FlatLayout& layout = base.buckets->layout();
  if (base.sharding() >= 3) {
    const std::int64_t shard = layout.place_in_shard(
        base.buckets->buckets(), base.data_group->rank().value, base.data_group->size());
    QD_ASSIGN_OR_RETURN(base.parameter_lease,
                        base.pool->lease(bytes_of(shard), MemoryTag::kParameter, kWhat));
    return {};
  }
  const Bytes bytes = bytes_of(layout.elements());
  QD_ASSIGN_OR_RETURN(base.parameter_lease,
                      base.sharding() == 0 ? base.pool->lease(bytes, MemoryTag::kParameter, kWhat)
                                           : base.data_group->lease(*base.pool, bytes,
                                                                    MemoryTag::kParameter, kWhat));
  for (std::size_t i = 0; i < base.tensors.size(); ++i) {
    const FlatPlace& place = layout.places()[static_cast<std::size_t>(base.entry_of_tensor[i])];
    base.tensors[i].value =
        base.parameter_lease.view_at(bytes_of(place.first), DType::kF32, base.tensors[i].shape);
  }
  return {};
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
                       .layer = tensor.layer,
                       .overwritten = tensor.overwritten,
                       .partial = tensor.partial});
  }
  QD_CHECK_MSG(entries.size() == base.tensors.size(), "backward completes every parameter once");
  const GradientBucketOptions options{.group = base.data_group,
                                      .stream = base.stream.get(),
                                      .pool = base.pool.get(),
                                      .bucket = base.plan->job.communication.bucket,
                                      .sharding = base.sharding(),
                                      .tensor_group = base.tensor_group};
  QD_ASSIGN_OR_RETURN(base.buckets, GradientBuckets::create(options, entries));
  for (std::size_t i = 0; i < base.tensors.size(); ++i) {
    base.tensors[i].gradient = base.buckets->gradient(base.entry_of_tensor[i]);
  }
  return {};
}

std::vector<OptimizedTensor> whole_tensors(const RankBase& base) {
  std::vector<OptimizedTensor> optimized;
  for (const TrainedTensor& tensor : base.tensors) {
    optimized.push_back({.name = tensor.name,
                         .value = tensor.value,
                         .gradient = tensor.gradient,
                         .decayed = tensor.decayed,
                         .whole = tensor.whole.elements(),
                         .counted = base.speaks_for(tensor)});
  }
  return optimized;
}

/// The pieces of this rank's slices, in the order of their buckets.
std::vector<OptimizedTensor> own_pieces(const RankBase& base) {
  std::vector<OptimizedTensor> optimized;
  for (const FlatPiece& piece : base.pieces) {
    const TrainedTensor& tensor = base.tensors[tensor_of(base, piece)];
    optimized.push_back({.name = tensor.name,
                         .value = own_piece(base, piece),
                         .gradient = base.buckets->reduced(piece),
                         .decayed = tensor.decayed,
                         .whole = tensor.whole.elements(),
                         .counted = base.speaks_for(tensor)});
  }
  return optimized;
}

Result<void> bind_optimizer(RankBase& base) {
  if (base.sharding() > 0) {
    base.pieces =
        base.buckets->layout().pieces(base.data_group->rank().value, base.data_group->size());
  }
  QD_ASSIGN_OR_RETURN(
      base.optimizer,
      AdamWOptimizer::create(base.plan->job.training, *base.stream, *base.pool,
                             base.sharding() == 0 ? whole_tensors(base) : own_pieces(base)));
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

TensorPiece whole_piece(const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (int i = 0; i < shape.dimensions(); ++i) extents.push_back(shape[i]);
  return TensorPiece::whole(extents);
}

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

namespace {

/// The communicator of the ranks that differ from this one on `axis` alone.
Result<Communicator*> axis_group(World& world, const Mesh& mesh, Axis axis) {
  const std::vector<Rank> members = mesh.group(world.rank(), std::span(&axis, 1));
  if (static_cast<int>(members.size()) == world.size()) return &world.whole();
  return world.group(members);
}

}  // namespace

Result<void> join_axes(RankBase& base) {
  QD_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::create(base.plan->mesh));
  base.tensor_share = base.plan->tensor_share(base.world->rank());
  QD_ASSIGN_OR_RETURN(base.data_group, axis_group(*base.world, mesh, Axis::kData));
  QD_ASSIGN_OR_RETURN(base.tensor_group, axis_group(*base.world, mesh, Axis::kTensor));
  return {};
}

Result<void> bind_training(RankBase& base, std::span<const int> backward_order) {
  QD_RETURN_IF_ERROR(bind_gradients(base, backward_order));
  QD_RETURN_IF_ERROR(bind_values(base));
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
                       .stop = base.options.stop,
                       .events = base.options.events},
                      tensors_to_save(base)));
  return keep_tokenizer(base);
}

TensorView own_values(const RankBase& base, int bucket) {
  const FlatLayout& layout = base.buckets->layout();
  const int rank = base.data_group->rank().value;
  const int ranks = base.data_group->size();
  const Extent slice = layout.slice(bucket, rank, ranks);
  const std::int64_t first =
      base.sharding() >= 3 ? layout.place_in_shard(bucket, rank, ranks) : slice.first;
  return base.parameter_lease.view_at(bytes_of(first), DType::kF32, Shape{slice.length});
}

Result<void> gather_values(RankBase& base, int bucket) {
  if (base.sharding() == 0 || base.sharding() >= 3) return {};
  const FlatBucket& whole = base.buckets->layout().buckets()[static_cast<std::size_t>(bucket)];
  CollectiveScope scope = base.data_group->open(fmt::format("parameters of bucket {}", bucket));
  return base.data_group->all_gather(
      scope, *base.stream,
      base.parameter_lease.view_at(bytes_of(whole.first), DType::kF32, Shape{whole.length}));
}

Result<void> gather_values(RankBase& base) {
  for (int bucket = 0; bucket < base.buckets->buckets(); ++bucket) {
    QD_RETURN_IF_ERROR(gather_values(base, bucket));
  }
  return {};
}

namespace {

/// Where elements `extent` of what this rank has of a tensor stand in the whole.
TensorPart part_of(const TrainedTensor& tensor, Extent extent) {
  return {.shape = tensor.whole,
          .first = 0,
          .runs = tensor.piece.part(extent.first, extent.length).blocks()};
}

}  // namespace

CheckpointTensor value_to_load(const RankBase& base, std::size_t tensor) {
  const TrainedTensor& trained = base.tensors[tensor];
  if (base.sharding() < 3) {
    if (!trained.is_sharded()) return {trained.name, trained.value};
    return {trained.name, trained.value, part_of(trained, {0, trained.shape.elements()})};
  }
  CheckpointTensor part{trained.name, {}, TensorPart{trained.whole, 0}};
  for (const FlatPiece& piece : base.pieces) {
    if (tensor_of(base, piece) != tensor) continue;
    part.view = own_piece(base, piece);
    part.part = part_of(trained, piece.of_tensor);
  }
  return part;
}

void write_value(RankBase& base, std::size_t tensor, std::span<const float> values) {
  if (base.sharding() < 3)
    return write_all<float>(*base.stream, base.tensors[tensor].value, values);
  for (const FlatPiece& piece : base.pieces) {
    if (tensor_of(base, piece) != tensor) continue;
    write_all<float>(*base.stream, own_piece(base, piece),
                     values.subspan(static_cast<std::size_t>(piece.of_tensor.first),
                                    static_cast<std::size_t>(piece.of_tensor.length)));
  }
}

std::vector<CheckpointTensor> tensors_to_save(const RankBase& base) {
  std::vector<CheckpointTensor> all = checkpoint_tensors(base);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].part) continue;  // Whole on every rank: they are dealt to the ranks.
    const TrainedTensor& tensor = base.tensors[i / (all.size() / base.tensors.size())];
    // Each part once: of a piece that all data-parallel ranks have whole, and of a slice that all
    // ranks of the tensor axis have.
    const bool over_data = base.sharding() > 0 || base.data_group->rank() == Rank{0};
    if (!over_data || !base.speaks_for(tensor)) all[i].view = {};
  }
  return all;
}

std::vector<CheckpointTensor> checkpoint_tensors(const RankBase& base) {
  constexpr std::array kPrefixes = {"", "optimizer.first_moment.", "optimizer.second_moment."};
  std::vector<CheckpointTensor> all;
  for (const TrainedTensor& tensor : base.tensors) {
    std::optional<TensorPart> part;
    if (base.sharding() > 0) part = TensorPart{tensor.whole, 0};
    if (base.sharding() == 0 && tensor.is_sharded()) {
      part = part_of(tensor, {0, tensor.shape.elements()});
    }
    for (const char* prefix : kPrefixes) all.push_back({prefix + tensor.name, {}, part});
  }
  // What the optimizer's tensor `i` is: a value or a piece of one, and its moments.
  for (int i = 0; i < base.optimizer->tensors(); ++i) {
    const auto index = static_cast<std::size_t>(i);
    const bool whole = base.sharding() == 0;
    const std::size_t tensor = whole ? index : tensor_of(base, base.pieces[index]);
    CheckpointTensor* const own = &all[kPrefixes.size() * tensor];
    own[0].view = whole ? base.tensors[tensor].value : own_piece(base, base.pieces[index]);
    own[1].view = base.optimizer->first_moment(i);
    own[2].view = base.optimizer->second_moment(i);
    for (std::size_t t = 0; !whole && t < kPrefixes.size(); ++t) {
      own[t].part = part_of(base.tensors[tensor], base.pieces[index].of_tensor);
    }
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

Result<std::string> first_found(Communicator& group, const std::string& mine) {
  if (group.size() == 1) return mine;
  CollectiveScope scope = group.open("the first bad tensor");
  QD_ASSIGN_OR_RETURN(const std::vector<std::string> all, group.gather_bytes(scope, mine));
  const auto found = std::find_if(all.begin(), all.end(), [](const auto& t) { return !t.empty(); });
  return found == all.end() ? std::string() : *found;
}

namespace {

/// What is wrong with the first value here that is not finite; empty where all are finite.
Result<std::string> first_bad_value_here(RankBase& base) {
  const auto text = [](const std::string& name, std::int64_t bad, std::int64_t elements) {
    return fmt::format("parameter {} ({} of {} elements)", name, bad, elements);
  };
  for (const FlatPiece& piece : base.sharding() >= 3 ? base.pieces : std::vector<FlatPiece>()) {
    QD_ASSIGN_OR_RETURN(const std::int64_t bad, count_nonfinite(base, own_piece(base, piece)));
    const TrainedTensor& tensor = base.tensors[tensor_of(base, piece)];
    if (bad > 0) return text(tensor.name, bad, tensor.shape.elements());
  }
  for (const TrainedTensor& tensor : base.tensors) {
    if (tensor.value.empty()) continue;
    QD_ASSIGN_OR_RETURN(const std::int64_t bad, count_nonfinite(base, tensor.value));
    if (bad > 0) return text(tensor.name, bad, tensor.value.elements());
  }
  return std::string();
}

}  // namespace

Result<std::optional<std::string>> first_bad_value(RankBase& base) {
  QD_ASSIGN_OR_RETURN(const std::string here, first_bad_value_here(base));
  QD_ASSIGN_OR_RETURN(const std::string found, first_found(base.world->whole(), here));
  if (found.empty()) return std::nullopt;
  return found;
}

}  // namespace quadrille::internal
