// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/plan/step_cost.h"

#include <algorithm>
#include <cmath>

#include "plan/collective_cost.h"
#include "plan/layer_cost.h"
#include "plan/stage_cut.h"

namespace quadrille {
namespace {

using internal::Collective;
using internal::LayerCost;
using internal::PassCost;
using internal::RankGroup;

struct Axes {
  RankGroup tensor, context, data, gradient;
  double stage_stride = 1;
};

Axes axes_of(const RunLayout& layout) {
  const auto t = static_cast<double>(layout.tensor);
  const auto c = static_cast<double>(layout.context);
  const auto d = static_cast<double>(layout.data);
  return {.tensor = {t, 1},
          .context = {c, t},
          .data = {d, t * c},
          .gradient = {c * d, t},
          .stage_stride = t * c * d};
}

const DeviceSpec& slowest_device(const ClusterSpec& cluster, NumberFormat format) {
  const DeviceSpec* slowest = nullptr;
  for (const NodeGroup& group : cluster.nodes) {
    const DeviceSpec* device = cluster.find_device(group.device);
    if (slowest == nullptr || device->peak_of(format) < slowest->peak_of(format)) slowest = device;
  }
  return *slowest;
}

/// Transfers of one layer and micro-batch that nothing hides.
struct LayerTransfers {
  double tensor_forward = 0;
  double tensor_backward = 0;
  double context = 0;
};

LayerTransfers layer_transfers(const TrainingRun& run, const ClusterSpec& cluster,
                               const LayerCost& layer, const CostConstants& constants) {
  const Axes axes = axes_of(run.layout);
  const auto c = static_cast<double>(run.layout.context);
  const double tokens = static_cast<double>(run.layout.micro_batch * run.model.sequence) / c;
  const double bytes = 2 * tokens * static_cast<double>(run.model.hidden);
  LayerTransfers transfers;
  if (run.layout.tensor > 1) {
    const double exposed = run.software.overlap_tensor ? constants.tensor_exposed : 1;
    if (run.layout.sequence) {
      const double gather = collective_seconds(Collective::kGather, bytes, axes.tensor, cluster);
      const double scatter = collective_seconds(Collective::kScatter, bytes, axes.tensor, cluster);
      transfers.tensor_forward = exposed * 2 * (gather + scatter);
      // Inputs are gathered once more for the weight gradients, beside the data gradients.
      transfers.tensor_backward = exposed * (2 * (gather + scatter) + gather);
    } else {
      const double sum = collective_seconds(Collective::kAllReduce, bytes, axes.tensor, cluster);
      transfers.tensor_forward = exposed * 2 * sum;
      transfers.tensor_backward = exposed * 2 * sum;
    }
  }
  if (run.layout.context > 1) {
    const double keys = std::max(run.model.kv_columns() / static_cast<double>(run.layout.tensor),
                                 run.model.head_width());
    const double ring =
        collective_seconds(Collective::kGather, 2 * 2 * tokens * c * keys, axes.context, cluster);
    const double hidden = layer.attention * (c - 1) / c;
    transfers.context = std::max(0.0, ring - hidden) + std::max(0.0, 2 * ring - 2.5 * hidden);
    transfers.context += 0.1 * 3 * ring;
  }
  return transfers;
}

/// The device waits for the host where kernels are shorter than their issue; in a real stream both
/// alternate, so the longer wins softly.
double paced(const PassCost& pass, const DeviceSpec& device) {
  const double host = pass.operations * device.efficiency.launch.count();
  const double device_seconds = pass.seconds;
  constexpr double kSoftness = 4;
  return std::pow(std::pow(host, kSoftness) + std::pow(device_seconds, kSoftness), 1 / kSoftness);
}

/// One micro-batch through a stage.
struct StageTime {
  double compute = 0;
  double again = 0;
  double host = 0;
  double tensor = 0;
  double context = 0;
  double stage = 0;
  double weight_gradient = 0;
  double forward = 0;
  double gathers = 0;  ///< Parameters' transfers that compute does not hide.

  [[nodiscard]] double total() const {
    return compute + again + host + tensor + context + stage + gathers;
  }
};

/// Seconds that gathering and scattering one layer's parameters adds, beside its compute.
struct Gathering {
  double forward_gather = 0;
  double backward_gather = 0;
  double scatter = 0;
};

Gathering gathering_of(const TrainingRun& run, const ClusterSpec& cluster, double parameters) {
  Gathering gathering;
  if (run.layout.sharding < 2) return gathering;
  const RankGroup group = axes_of(run.layout).gradient;
  const double gradient = run.software.fp32_reduce ? 4 : 2;
  // Two norms, four products, each a weight and a bias.
  constexpr double kTensorsOfLayer = 12;
  const bool apart = run.software.tensor_gathers;
  const double pieces = apart ? kTensorsOfLayer : 1;
  gathering.scatter =
      pieces * collective_seconds(apart ? Collective::kRingGather : Collective::kScatter,
                                  gradient * parameters / pieces, group, cluster);
  if (run.layout.sharding >= 3) {
    gathering.forward_gather =
        pieces * collective_seconds(apart ? Collective::kRingGather : Collective::kGather,
                                    2 * parameters / pieces, group, cluster);
    gathering.backward_gather = gathering.forward_gather;
  }
  return gathering;
}

double beside(double transfer, double compute, const TrainingRun& run,
              const CostConstants& constants) {
  if (!run.software.overlap_gradients) return transfer;
  const double exposed = std::max(transfer - compute, constants.gather_exposed * transfer);
  return exposed + constants.contention * std::min(transfer, compute);
}

class StageModel {
 public:
  StageModel(const TrainingRun& run, const ClusterSpec& cluster, const CostConstants& constants)
      : run_(run),
        constants_(constants),
        device_(slowest_device(cluster, run.format)),
        layer_(internal::layer_cost(run, device_, constants)),
        head_(internal::head_cost(run, device_, constants)),
        transfers_(layer_transfers(run, cluster, layer_, constants)),
        gathering_(gathering_of(
            run, cluster, run.model.layer_parameters() / static_cast<double>(run.layout.tensor))),
        stage_message_(stage_message(cluster)) {}

  [[nodiscard]] StageTime time(double layers, bool with_head) const {
    PassCost forward = scaled(layer_.forward, layers);
    PassCost backward = scaled(layer_.backward, layers);
    const PassCost again = scaled(layer_.again, layers);
    if (with_head) {
      forward += head_.forward;
      backward += head_.backward;
    }
    const double tensor_operations = run_.layout.tensor > 1 ? 2 * layers : 0;
    forward.operations += tensor_operations;
    backward.operations += tensor_operations;
    const bool repeats = run_.layout.recompute == RecomputeKind::kFull;

    StageTime stage;
    stage.tensor =
        layers * (transfers_.tensor_forward * (repeats ? 2 : 1) + transfers_.tensor_backward);
    stage.context = layers * transfers_.context * (repeats ? 4.0 / 3 : 1);
    PassCost all = forward;
    all += backward;
    all += again;
    all.seconds += stage.tensor + stage.context;
    stage.compute = forward.seconds + backward.seconds;
    stage.again = again.seconds;
    stage.host = paced(all, device_) - all.seconds;
    stage.weight_gradient = layer_.weight_gradient * layers;
    stage.forward = forward.seconds + layers * transfers_.tensor_forward;
    stage.gathers =
        layers * (beside(gathering_.forward_gather, forward.seconds / layers, run_, constants_) +
                  beside(gathering_.backward_gather + gathering_.scatter,
                         (backward.seconds + again.seconds) / layers, run_, constants_));
    stage.stage = stage_message_;
    return stage;
  }
  [[nodiscard]] const DeviceSpec& device() const { return device_; }

 private:
  static PassCost scaled(PassCost pass, double times) {
    return {pass.seconds * times, pass.operations * times};
  }
  [[nodiscard]] double stage_message(const ClusterSpec& cluster) const {
    const RunLayout& layout = run_.layout;
    if (layout.pipeline == 1) return 0;
    const double split =
        layout.sequence || run_.software.scatter_stages ? static_cast<double>(layout.tensor) : 1;
    const double bytes = 2 * static_cast<double>(layout.micro_batch * run_.model.sequence) *
                         static_cast<double>(run_.model.hidden) /
                         static_cast<double>(layout.context) / split;
    const double message = internal::message_seconds(bytes, axes_of(layout).stage_stride, cluster);
    const double exposed =
        layout.interleave > 1 ? constants_.chunk_exposed : constants_.stage_exposed;
    return 2 * message * static_cast<double>(layout.interleave) * exposed;
  }

  const TrainingRun& run_;
  const CostConstants& constants_;
  const DeviceSpec& device_;
  LayerCost layer_;
  LayerCost head_;
  LayerTransfers transfers_;
  Gathering gathering_;
  double stage_message_;
};

/// Waiting of the slowest stage: filling and draining the pipeline, and unequal stages.
double bubble_seconds(const TrainingRun& run, const StageTime& fullest, double all_stages) {
  const RunLayout& layout = run.layout;
  if (layout.pipeline == 1) return 0;
  const double others = std::max(0.0, all_stages - fullest.total());
  const auto p = static_cast<double>(layout.pipeline);
  switch (layout.schedule) {
    case PipelineKind::kOneFOneB:
    case PipelineKind::kInterleaved:
      return others / static_cast<double>(layout.interleave);
    case PipelineKind::kZeroBubbleOne:  // (p-1)(F + B - W)
      return std::max(0.0, others - 2 * (p - 1) * fullest.weight_gradient);
    case PipelineKind::kZeroBubbleTwo:  // (p-1)(F + B - 2W), nothing where that is negative
      return std::max(0.0, others - 3 * (p - 1) * fullest.weight_gradient);
  }
  return others;
}

/// Reducing gradients and gathering what was updated, beyond what compute hides.
struct UpdateTime {
  double gradient = 0;
  double parameter = 0;
  double optimizer = 0;
};

UpdateTime update_time(const TrainingRun& run, const ClusterSpec& cluster, double parameters,
                       const StageTime& stage, const CostConstants& constants) {
  const RunLayout& layout = run.layout;
  const RankGroup group = axes_of(layout).gradient;
  const double width = run.software.fp32_reduce ? 4 : 2;
  const DeviceSpec& device = slowest_device(cluster, run.format);
  UpdateTime update;
  const double chunk = static_cast<double>(layout.interleave);
  const double backward = std::max(0.0, stage.total() - stage.forward) / chunk;
  if (layout.sharding <= 1) {
    const bool sharded = layout.sharding == 1;
    const double reduce =
        collective_seconds(sharded ? Collective::kScatter : Collective::kAllReduce,
                           width * parameters, group, cluster);
    update.gradient = beside(reduce, backward, run, constants);
    if (sharded) {
      const double gather = collective_seconds(Collective::kGather, 2 * parameters, group, cluster);
      update.parameter = beside(gather, stage.forward / chunk, run, constants);
    }
  }
  const double shards = layout.sharding >= 1 ? group.size : 1;
  update.optimizer = constants.optimizer_bytes * parameters / shards /
                     (device.memory_bandwidth * device.efficiency.memory);
  return update;
}

}  // namespace

StepCost step_cost(const TrainingRun& run, const ClusterSpec& cluster,
                   const CostConstants& constants) {
  const StageModel model(run, cluster, constants);
  const internal::StageCut cut = internal::cut_stages(run.model, run.layout);
  const auto p = static_cast<double>(run.layout.pipeline);
  const auto m = static_cast<double>(run.micro_batches());

  const StageTime last = model.time(cut.last, true);
  const StageTime inner = p > 1 ? model.time(cut.inner, false) : last;
  const StageTime& fullest = last.total() > inner.total() ? last : inner;
  const double all_stages = p > 1 ? inner.total() * (p - 1) + last.total() : last.total();
  const double t = static_cast<double>(run.layout.tensor);
  const double layer_parameters = run.model.layer_parameters() * cut.inner / t;
  const double edge = run.model.embedding_parameters() / t * (p == 1 && !run.model.tied ? 2 : 1);
  const double parameters = layer_parameters + edge;
  const UpdateTime update = update_time(run, cluster, parameters, fullest, constants);

  StepCost cost;
  cost.compute = Seconds(m * fullest.compute);
  cost.recompute = Seconds(m * fullest.again);
  cost.host = Seconds(m * fullest.host);
  cost.tensor_transfer = Seconds(m * fullest.tensor);
  cost.context_transfer = Seconds(m * fullest.context);
  cost.stage_transfer = Seconds(m * fullest.stage);
  cost.bubble = Seconds(bubble_seconds(run, fullest, all_stages));
  cost.gradient_transfer = Seconds(update.gradient);
  cost.parameter_transfer = Seconds(update.parameter + m * fullest.gathers);
  cost.optimizer = Seconds(update.optimizer);
  const double doublings =
      std::log2(static_cast<double>(std::max<std::int64_t>(1, run.layout.ranks())));
  cost.other = Seconds(constants.step_host + constants.jitter * doublings * cost.total().count());
  return cost;
}

Result<StepCost> predict_step(const TrainingRun& run, const ClusterSpec& cluster,
                              const CostConstants& constants) {
  QD_RETURN_IF_ERROR(check_run(run, cluster));
  return step_cost(run, cluster, constants);
}

}  // namespace quadrille
