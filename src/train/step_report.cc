// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/step_report.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "quadrille/config/model_shapes.h"

namespace quadrille::internal {
namespace {

// What one rank tells the others, as plain doubles.
struct RankFigures {
  double seconds = 0;
  double compute = 0;
  double communication = 0;
  double bubble = 0;
  double data = 0;
  double checkpoint_wait = 0;
  double peak = 0;
  std::array<double, kMemoryTagCount> peak_by_tag{};
};

RankFigures figures_of(const RankBase& base, const Stopwatch& watch) {
  RankFigures mine;
  mine.seconds = watch.total().count();
  mine.compute = watch.in(Phase::kCompute).count();
  mine.communication = watch.in(Phase::kCommunication).count();
  mine.bubble = watch.in(Phase::kBubble).count();
  mine.data = watch.in(Phase::kData).count();
  mine.checkpoint_wait = base.checkpoint_wait.count();
  mine.peak = static_cast<double>(base.pool->peak().count());
  for (std::size_t tag = 0; tag < kMemoryTagCount; ++tag) {
    mine.peak_by_tag[tag] =
        static_cast<double>(base.pool->peak(static_cast<MemoryTag>(tag)).count());
  }
  // Messages are received into memory of the world's, beside the pool.
  const auto staging = static_cast<double>(base.world->staging().count());
  mine.peak += staging;
  mine.peak_by_tag[static_cast<std::size_t>(MemoryTag::kCommunication)] += staging;
  return mine;
}

Result<std::vector<RankFigures>> gather(RankBase& base, const RankFigures& mine) {
  CollectiveScope scope = base.world->whole().open("the figures of the step");
  const std::string_view bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
  QD_ASSIGN_OR_RETURN(const std::vector<std::string> rows,
                      base.world->whole().gather_bytes(scope, bytes));
  std::vector<RankFigures> all(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    QD_CHECK(rows[i].size() == sizeof(RankFigures));
    std::memcpy(&all[i], rows[i].data(), sizeof(RankFigures));
  }
  return all;
}

void add_phases(const std::vector<RankFigures>& ranks, StepRecord& record) {
  const double share = 1.0 / static_cast<double>(ranks.size());
  double seconds = 0;
  double checkpoint_wait = 0;
  for (const RankFigures& rank : ranks) {
    seconds = std::max(seconds, rank.seconds);
    checkpoint_wait = std::max(checkpoint_wait, rank.checkpoint_wait);
    record.compute += Seconds(rank.compute * share);
    record.communication += Seconds(rank.communication * share);
    record.bubble += Seconds(rank.bubble * share);
    record.data += Seconds(rank.data * share);
  }
  record.seconds = Seconds(seconds);
  record.checkpoint_wait = Seconds(checkpoint_wait);
  // Nothing overlaps a collective yet, so all of its time is exposed.
  record.exposed_communication = record.communication;
  record.other =
      record.seconds - record.compute - record.exposed_communication - record.bubble - record.data;
}

void add_peaks(const std::vector<RankFigures>& ranks, StepRecord& record) {
  double peak = 0;
  for (const RankFigures& rank : ranks) peak = std::max(peak, rank.peak);
  record.peak = Bytes(static_cast<std::int64_t>(peak));
  for (const auto& [tag, name] : kMemoryTagText.rows) {
    double most = 0;
    for (const RankFigures& rank : ranks) {
      most = std::max(most, rank.peak_by_tag[static_cast<std::size_t>(tag)]);
    }
    record.peak_by_tag[std::string(name)] = Bytes(static_cast<std::int64_t>(most));
  }
}

}  // namespace

Result<StepRecord> report_step(RankBase& base, const Stopwatch& watch, std::int64_t step,
                               const StepFigures& figures) {
  if (base.options.profiler != nullptr) base.options.profiler->end_step(base.pool->leases_made());
  QD_ASSIGN_OR_RETURN(const std::vector<RankFigures> ranks, gather(base, figures_of(base, watch)));
  const JobSpec& job = base.plan->job;
  StepRecord record;
  record.step = step;
  record.loss = figures.loss;
  record.tokens = figures.tokens;
  record.gradient_norm = figures.gradient_norm;
  record.learning_rate = figures.learning_rate;
  add_phases(ranks, record);
  add_peaks(ranks, record);
  if (base.plan->machine.peak_flops_per_second && !job.model.is_custom()) {
    const Flops work = model_flops_per_token(job.model, job.training.sequence) *
                       static_cast<double>(record.tokens);
    record.mfu = work.count() / record.seconds.count() / *base.plan->machine.peak_flops_per_second;
  }
  return record;
}

}  // namespace quadrille::internal
