// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/plan/training_run.h"

#include <algorithm>

namespace quadrille {
namespace {

class RunChecks {
 public:
  RunChecks(const TrainingRun& run, const ClusterSpec& cluster) : run_(run), cluster_(cluster) {}

  std::vector<Diagnostic> all() {
    check_counts();
    if (diagnostics_.empty()) check_degrees();
    check_format();
    return std::move(diagnostics_);
  }

 private:
  void report(std::string path, std::string wrong, std::string right) {
    diagnostics_.push_back({"", 0, std::move(path), std::move(wrong), std::move(right)});
  }

  void count(std::int64_t value, std::string path) {
    constexpr std::int64_t kMost = 1'000'000'000;
    if (value >= 1 && value <= kMost) return;
    report(std::move(path), std::to_string(value), "a whole number from 1 to 10^9");
  }

  void check_counts() {
    const TransformerShape& model = run_.model;
    count(model.layers, "model.layers");
    count(model.hidden, "model.hidden");
    count(model.heads, "model.heads");
    count(model.kv_heads, "model.kv_heads");
    count(model.ffn, "model.ffn");
    count(model.vocab, "model.vocab");
    count(model.sequence, "model.sequence");
    const RunLayout& layout = run_.layout;
    count(layout.data, "layout.data");
    count(layout.tensor, "layout.tensor");
    count(layout.pipeline, "layout.pipeline");
    count(layout.context, "layout.context");
    count(layout.interleave, "layout.interleave");
    count(layout.micro_batch, "layout.micro_batch");
    count(run_.global_batch, "global_batch");
    if (layout.sharding < 0 || layout.sharding > 3) {
      report("layout.sharding", std::to_string(layout.sharding), "0, 1, 2 or 3");
    }
  }

  void check_degrees() {
    const RunLayout& layout = run_.layout;
    double product = 1;
    for (const std::int64_t degree :
         {layout.data, layout.tensor, layout.pipeline, layout.context}) {
      product *= static_cast<double>(degree);
    }
    if (product != static_cast<double>(cluster_.device_count())) {
      report("layout",
             std::to_string(static_cast<std::int64_t>(std::min(product, 1e18))) + " ranks",
             "the cluster's " + std::to_string(cluster_.device_count()) + " devices");
    }
    if (layout.pipeline > run_.model.layers) {
      report("layout.pipeline", std::to_string(layout.pipeline) + " stages",
             "at most the " + std::to_string(run_.model.layers) + " layers");
    }
    if (run_.global_batch % layout.data != 0 ||
        run_.global_batch / layout.data % layout.micro_batch != 0) {
      report("global_batch", std::to_string(run_.global_batch) + " sequences",
             "a multiple of data " + std::to_string(layout.data) + " times micro-batch " +
                 std::to_string(layout.micro_batch));
    }
    if (run_.model.heads % layout.tensor != 0) {
      report("layout.tensor", std::to_string(layout.tensor),
             "a divisor of the " + std::to_string(run_.model.heads) + " heads");
    }
  }

  void check_format() {
    for (const NodeGroup& group : cluster_.nodes) {
      const DeviceSpec* device = cluster_.find_device(group.device);
      if (device == nullptr || device->peak_of(run_.format) > 0) continue;
      report("format",
             group.device + " has no units for " + std::string(kNumberFormatText.text(run_.format)),
             "a format of the device");
    }
  }

  const TrainingRun& run_;
  const ClusterSpec& cluster_;
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace

Result<void> check_run(const TrainingRun& run, const ClusterSpec& cluster) {
  auto diagnostics = check_cluster(cluster);
  for (Diagnostic& diagnostic : RunChecks(run, cluster).all()) {
    diagnostics.push_back(std::move(diagnostic));
  }
  if (diagnostics.empty()) return {};
  return fail(Error{Code::kInvalid, "the run cannot be planned", std::move(diagnostics)});
}

double TransformerShape::layer_parameters() const {
  const auto h = static_cast<double>(hidden);
  const double attention = h * (2 * h + 2 * kv_columns());
  const double mlp = (gated ? 3 : 2) * h * static_cast<double>(ffn);
  return attention + mlp + 4 * h;
}

double TransformerShape::embedding_parameters() const {
  return static_cast<double>(vocab) * static_cast<double>(hidden);
}

double TransformerShape::parameters() const {
  const double tables = tied ? 1 : 2;
  const double position =
      positions ? static_cast<double>(sequence) * static_cast<double>(hidden) : 0;
  return static_cast<double>(layers) * layer_parameters() + tables * embedding_parameters() +
         position;
}

}  // namespace quadrille
