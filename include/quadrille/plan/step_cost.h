// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How long one training step takes on a cluster, part by part: a mechanism for each part, one set
// of constants per kind of device (DeviceEfficiency) and one for all software (CostConstants).
// Pure, deterministic, a few microseconds a call. The derivation of each term stands in
// docs/planner.md.

#include "quadrille/plan/training_run.h"

namespace quadrille {

/// Constants of the model that belong to no device. docs/planner.md says where each comes from.
struct CostConstants {
  double unfused_traffic = 1;   ///< Pointwise memory traffic of eager code over that of fused code.
  double softmax_bytes = 10.4;  ///< Traffic per attention score, unfused forward.
  double attention_sequence = 832;   ///< Sequence at which fused attention reaches half its rate.
  double attention_backward = 1.53;  ///< Backward's slowness beyond its 2.5 times the products.
  double batched_product = 0.561;    ///< Rate of attention's batched products over a layer's.
  double eager_operations = 36;      ///< Host issues per layer and pass, eager.
  double fused_operations = 14;      ///< The same with fused kernels.
  double tensor_exposed = 0.44;      ///< Of tensor-parallel transfers where they overlap.
  double gather_exposed =
      0.175;                ///< Of sharded parameters' transfers, however much compute is beside.
  double contention = 0.5;  ///< Of an overlapped transfer that compute loses.
  double stage_exposed = 0.24;    ///< Of stage transfers in a pipeline of whole stages.
  double chunk_exposed = 0.291;   ///< The same with interleaved chunks, where transfers overlap.
  double jitter = 0.00332;        ///< Of the step per doubling of the devices.
  double quantize_bytes = 2.16;   ///< Traffic per factor element of a product in 8 bits or fewer.
  double step_host = 0.01;        ///< Seconds of a step that nothing hides: clipping, logging.
  double optimizer_bytes = 27.8;  ///< Traffic per parameter that a rank updates.
};

/// Seconds of one step on the slowest path; their sum is the step.
struct StepCost {
  Seconds compute;          ///< Products, attention, pointwise kernels of all micro-batches.
  Seconds recompute;        ///< The part of the forward that runs again.
  Seconds host;             ///< Device time lost to issuing operations.
  Seconds tensor_transfer;  ///< Exposed transfers of the tensor axis.
  Seconds context_transfer;
  Seconds stage_transfer;
  Seconds bubble;  ///< Waiting of pipeline stages, unequal stages included.
  Seconds gradient_transfer;
  Seconds parameter_transfer;
  Seconds optimizer;
  Seconds other;  ///< Host work of a step and jitter of many devices.

  [[nodiscard]] Seconds total() const {
    return compute + recompute + host + tensor_transfer + context_transfer + stage_transfer +
           bubble + gradient_transfer + parameter_transfer + optimizer + other;
  }
};

/// Errors: those of check_run and check_cluster.
[[nodiscard]] Result<StepCost> predict_step(const TrainingRun& run, const ClusterSpec& cluster,
                                            const CostConstants& constants = {});

/// The same without the checks, for a search that has made them.
[[nodiscard]] StepCost step_cost(const TrainingRun& run, const ClusterSpec& cluster,
                                 const CostConstants& constants);

}  // namespace quadrille
