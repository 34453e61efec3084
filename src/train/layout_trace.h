// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a run computes, as whole tensors whatever the layout: each rank gives its pieces, and they
// are put together by where they stand in the whole. Layouts are compared by it. For small models:
// it keeps everything.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "quadrille/base/enum_text.h"
#include "quadrille/mesh/piece.h"
#include "train/rank_state.h"

namespace quadrille::internal {

enum class TracePhase : std::uint8_t { kActivation, kGradient, kWeight };
inline constexpr EnumTable<TracePhase, 3> kTracePhaseText{
    {{{TracePhase::kActivation, "forward activation"},
      {TracePhase::kGradient, "gradient"},
      {TracePhase::kWeight, "weight"}}}};

struct TracedTensor {
  TracePhase phase = TracePhase::kActivation;
  std::int64_t layer = 0;
  std::string name;
  std::vector<std::int64_t> shape;  ///< Of the whole; activations are [rows of the batch, width].
  AxisPlacement tensor;             ///< How the layout's tensor axis cuts it.
  std::vector<float> values;
};

struct TracedStep {
  double loss = 0;
  double gradient_norm = 0;
  std::vector<TracedTensor> tensors;  ///< In the order in which a step makes them.
};

/// Filled by all ranks of a run, which are threads.
class LayoutTrace {
 public:
  /// One rank's piece of a tensor. A piece that another rank has given already must be the same.
  struct Piece {
    TracedTensor whole;  ///< Without values.
    TensorPiece place;
    std::vector<float> values;
  };
  void add(std::int64_t step, Piece piece);
  void set_figures(std::int64_t step, double loss, double gradient_norm);

  /// The steps, from 1. Nobody adds any more.
  [[nodiscard]] std::vector<TracedStep> take();
  /// The first tensor of which two ranks gave other values for the same place.
  [[nodiscard]] const std::optional<std::string>& disagreement() const { return disagreement_; }

 private:
  struct Slot {
    TracedTensor tensor;
    std::vector<char> given;
  };
  struct Step {
    TracedStep figures;
    std::map<std::string, std::size_t> index;
    std::vector<Slot> slots;
  };

  std::mutex mutex_;  ///< Guards all below.
  std::map<std::int64_t, Step> steps_;
  std::optional<std::string> disagreement_;
};

/// One rank's side of it, called by the executor.
class RankTrace {
 public:
  /// Both outlive this.
  RankTrace(LayoutTrace& trace, RankState& state) : trace_(trace), state_(state) {}

  /// The residual stream that `layer` has just made, of the sequences at `slots`.
  [[nodiscard]] Result<void> forward(std::int64_t step, std::int64_t layer,
                                     const std::vector<std::int64_t>& slots);
  /// All reduced gradients of this rank.
  [[nodiscard]] Result<void> gradients(std::int64_t step);
  [[nodiscard]] Result<void> weights(std::int64_t step);
  void figures(std::int64_t step, double loss, double gradient_norm) {
    trace_.set_figures(step, loss, gradient_norm);
  }

 private:
  [[nodiscard]] Result<void> add_rows(std::int64_t step, std::int64_t layer,
                                      const std::string& name,
                                      const std::vector<std::int64_t>& slots);
  [[nodiscard]] Result<void> add_parameter(std::int64_t step, TracePhase phase, std::size_t index,
                                           const TensorView& view, const TensorPiece& place);

  LayoutTrace& trace_;
  RankState& state_;
};

}  // namespace quadrille::internal
