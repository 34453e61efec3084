// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/plan/layout_search.h"

#include <algorithm>
#include <functional>

namespace quadrille {
namespace {

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> small;
  std::vector<std::int64_t> large;
  for (std::int64_t i = 1; i * i <= number; ++i) {
    if (number % i != 0) continue;
    if (i <= most) small.push_back(i);
    if (i != number / i && number / i <= most) large.push_back(number / i);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

bool allowed(std::int64_t value, std::int64_t fixed) { return fixed == 0 || value == fixed; }

class Search {
 public:
  Search(const SearchRequest& request, const ClusterSpec& cluster, const CostConstants& constants,
         const MemoryConstants& memory)
      : request_(request),
        cluster_(cluster),
        constants_(constants),
        memory_(memory),
        capacity_(request.limits.memory_share * smallest_memory(cluster)) {
    run_.model = request.model;
    run_.software = request.software;
    run_.global_batch = request.global_batch;
    run_.format = request.format;
  }

  SearchResult run() {
    const std::int64_t devices = cluster_.device_count();
    for (const std::int64_t tensor : divisors(devices, request_.limits.tensor_most)) {
      if (!allowed(tensor, request_.limits.tensor) || run_.model.heads % tensor != 0) continue;
      run_.layout.tensor = tensor;
      for (const std::int64_t pipeline : divisors(devices / tensor, run_.model.layers)) {
        if (!allowed(pipeline, request_.limits.pipeline)) continue;
        run_.layout.pipeline = pipeline;
        split_rest(devices / tensor / pipeline);
      }
    }
    for (RatedLayout& layout : result_.best) {
      run_.layout = layout.layout;
      layout.memory = whole_memory();
    }
    return std::move(result_);
  }

 private:
  static double smallest_memory(const ClusterSpec& cluster) {
    double least = 0;
    for (const NodeGroup& group : cluster.nodes) {
      const auto bytes = static_cast<double>(cluster.find_device(group.device)->memory.count());
      if (least == 0 || bytes < least) least = bytes;
    }
    return least;
  }

  void split_rest(std::int64_t ranks) {
    for (const std::int64_t context : divisors(ranks, request_.limits.context_most)) {
      if (!allowed(context, request_.limits.context)) continue;
      if (run_.model.sequence % (2 * context) != 0 && context > 1) continue;
      const std::int64_t data = ranks / context;
      if (!allowed(data, request_.limits.data) || request_.global_batch % data != 0) continue;
      run_.layout.context = context;
      run_.layout.data = data;
      for (const std::int64_t micro :
           divisors(request_.global_batch / data, request_.limits.micro_batch_most)) {
        if (!allowed(micro, request_.limits.micro_batch)) continue;
        run_.layout.micro_batch = micro;
        each_schedule();
      }
    }
  }

  void each_schedule() {
    const std::int64_t stages = run_.layout.pipeline;
    for (const PipelineKind schedule : request_.limits.schedules) {
      run_.layout.schedule = schedule;
      if (schedule != PipelineKind::kInterleaved) {
        if (stages == 1 && schedule != request_.limits.schedules.front()) continue;
        run_.layout.interleave = 1;
        each_policy();
        continue;
      }
      if (stages == 1 || run_.model.layers % stages != 0) continue;
      if (run_.micro_batches() % stages != 0) continue;
      for (const std::int64_t chunks : divisors(run_.model.layers / stages, run_.model.layers)) {
        run_.layout.interleave = chunks;
        if (chunks > 1) each_policy();
      }
    }
    run_.layout.interleave = 1;
  }

  void each_policy() {
    for (const int sharding : request_.limits.sharding) {
      const std::int64_t shards = run_.layout.data * run_.layout.context;
      if (shards == 1 && sharding != request_.limits.sharding.front()) continue;
      if (sharding == 3 && run_.layout.pipeline > 1)
        continue;  // Gathers per micro-batch and chunk.
      run_.layout.sharding = sharding;
      for (const RecomputeKind recompute : request_.limits.recompute) {
        run_.layout.recompute = recompute;
        run_.layout.sequence = false;
        rate();
        if (run_.layout.tensor == 1 || run_.model.sequence % run_.layout.tensor != 0) continue;
        run_.layout.sequence = true;
        rate();
      }
    }
  }

  [[nodiscard]] RankMemory whole_memory() const {
    return rank_memory(run_, MemoryMeasure::kDevice, RankPlace::kFullest, memory_);
  }

  /// No step is shorter than its products at the full peak, spread evenly, with the bubble.
  [[nodiscard]] double least_seconds() const {
    const TransformerShape& model = run_.model;
    const double tokens =
        static_cast<double>(request_.global_batch) * static_cast<double>(model.sequence);
    const double layers = static_cast<double>(model.layers) *
                          (model.layer_parameters() - 4 * static_cast<double>(model.hidden));
    const bool repeats = run_.layout.recompute == RecomputeKind::kFull;
    const double products = (repeats ? 8 : 6) * layers * tokens;
    const double even = products / static_cast<double>(run_.layout.ranks()) / fastest_rate();
    const bool bubbles = run_.layout.schedule == PipelineKind::kOneFOneB ||
                         run_.layout.schedule == PipelineKind::kInterleaved;
    if (!bubbles) return even;
    // (p - 1) / (m v) more, when every stage is as full as the mean; fuller ones are slower still.
    const double stages = static_cast<double>(run_.layout.pipeline - 1);
    const double turns =
        static_cast<double>(run_.micro_batches()) * static_cast<double>(run_.layout.interleave);
    return even * (1 + stages / turns);
  }

  /// Of the slowest kind, which sets the pace; efficiencies above 1 are possible in a file.
  [[nodiscard]] double fastest_rate() const {
    double least = 0;
    for (const NodeGroup& group : cluster_.nodes) {
      const DeviceSpec& device = *cluster_.find_device(group.device);
      const DeviceEfficiency& shares = device.efficiency;
      const double share = request_.format == NumberFormat::kFp8   ? shares.matmul_fp8
                           : request_.format == NumberFormat::kFp4 ? shares.matmul_fp4
                                                                   : shares.matmul;
      const double rate = device.peak_of(request_.format) * share;
      if (least == 0 || rate < least) least = rate;
    }
    return least;
  }

  void reject(const char* why) { ++result_.rejected[why]; }

  void rate() {
    ++result_.considered;
    const bool full = result_.best.size() >= request_.best;
    if (request_.bounded && full && least_seconds() > result_.best.back().step.total().count()) {
      return reject("its products alone take longer than the best layouts' steps");
    }
    const RankMemory memory = whole_memory();
    if (memory.total() > capacity_) {
      reject("does not fit the device's memory");
      return remember_closest(memory);
    }
    ++result_.priced;
    const StepCost step = step_cost(run_, cluster_, constants_);
    const double seconds = step.total().count();
    if (full && seconds >= result_.best.back().step.total().count()) return reject("slower");
    const auto place = std::upper_bound(
        result_.best.begin(), result_.best.end(), seconds,
        [](double value, const RatedLayout& other) { return value < other.step.total().count(); });
    result_.best.insert(place, {run_.layout, step, memory});
    if (result_.best.size() > request_.best) {
      result_.best.pop_back();
      reject("slower");
    }
  }

  void remember_closest(const RankMemory& memory) {
    const double missing = memory.total() - capacity_;
    if (!result_.closest.empty() && missing >= result_.missing_bytes) return;
    result_.missing_bytes = missing;
    result_.closest = {{run_.layout, {}, memory}};
  }

  const SearchRequest& request_;
  const ClusterSpec& cluster_;
  const CostConstants& constants_;
  const MemoryConstants& memory_;
  double capacity_;
  TrainingRun run_;
  SearchResult result_;
};

}  // namespace

Result<SearchResult> search_layouts(const SearchRequest& request, const ClusterSpec& cluster,
                                    const CostConstants& constants, const MemoryConstants& memory) {
  // One device alone is a legal layout of every sound request; it stands for the counts.
  TrainingRun probe{.model = request.model, .software = request.software};
  probe.global_batch = request.global_batch;
  probe.format = request.format;
  probe.layout.data = cluster.device_count();
  if (const auto checked = check_run(probe, cluster); !checked) {
    Error error = checked.error();
    const auto of_layout = [](const Diagnostic& found) {
      return found.path == "layout" ||
             (found.path == "global_batch" && found.right.starts_with("a multiple of data"));
    };
    std::erase_if(error.diagnostics, of_layout);
    if (!error.diagnostics.empty()) return fail(std::move(error));
  }
  SearchResult result = Search(request, cluster, constants, memory).run();
  if (result.considered == 0) {
    return fail(Code::kInvalid,
                "no layout of " + std::to_string(cluster.device_count()) +
                    " devices divides the heads, layers and batch within the limits");
  }
  if (!result.best.empty()) {
    result.closest.clear();
    result.missing_bytes = 0;
  }
  return result;
}

}  // namespace quadrille
