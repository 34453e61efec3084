// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "quadrille/base/check.h"
#include "quadrille/base/text.h"
#include "quadrille/config/model_shapes.h"

namespace quadrille::internal {
namespace {

constexpr std::int64_t kRanksMost = 1 << 20;

/// Descending.
std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t low = 1; low <= number / low; ++low) {
    if (number % low != 0) continue;
    if (low <= most) all.push_back(low);
    if (low != number / low && number / low <= most) all.push_back(number / low);
  }
  std::sort(all.rbegin(), all.rend());
  return all;
}

std::string list_text(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> words;
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    words.push_back(std::to_string(*number));
  }
  constexpr std::size_t kShown = 12;
  if (words.size() > kShown) {
    words.resize(kShown);
    words.emplace_back("...");
  }
  return join(words, ", ");
}

Error wrong_value(std::string path, std::string wrong, std::string right) {
  return {Code::kInvalid,
          "the job cannot be laid out",
          {{.path = std::move(path), .wrong = std::move(wrong), .right = std::move(right)}}};
}

/// A forward needs at least one whole sequence, however long it is.
std::int64_t automatic_micro_batch_most(const TrainingSpec& training) {
  return std::max<std::int64_t>(1, kForwardTokensMost / training.sequence);
}

std::vector<std::int64_t> rank_candidates(const JobSpec& job, const MachineFacts& machine) {
  if (!job.parallel.is_auto()) return {job.parallel.data};
  const std::int64_t most = std::max<std::int64_t>(machine.cores / job.parallel.tensor, 1);
  return divisors(job.training.global_batch, most);
}

std::vector<std::int64_t> micro_batch_candidates(const TrainingSpec& training, std::int64_t ranks) {
  if (training.global_batch % ranks != 0) return {};
  const std::int64_t share = training.global_batch / ranks;
  if (training.micro_batch == 0) return divisors(share, automatic_micro_batch_most(training));
  if (share % training.micro_batch != 0) return {};
  return {training.micro_batch};
}

Result<void> check_counts(const JobSpec& job) {
  const TrainingSpec& training = job.training;
  QD_CHECK(training.global_batch >= 1 && training.sequence >= 1);
  const std::int64_t ranks = job.parallel.data;
  if (ranks < 0 || ranks > kRanksMost) {
    return fail(wrong_value("parallel.data", fmt::format("{} ranks are no layout", ranks),
                            fmt::format("\"auto\" or 1 to {}", kRanksMost)));
  }
  if (ranks > training.global_batch) {
    return fail(wrong_value(
        "parallel.data",
        fmt::format("{} ranks share a global batch of {} sequences, so some would have none", ranks,
                    training.global_batch),
        fmt::format("at most {} ranks, or a larger training.global_batch", training.global_batch)));
  }
  if (ranks > 0 && training.global_batch % ranks != 0) {
    return fail(wrong_value(
        "training.global_batch",
        fmt::format("{} sequences cannot be divided by {} ranks", training.global_batch, ranks),
        fmt::format("a multiple of {}, or one of {} ranks", ranks,
                    list_text(divisors(training.global_batch, training.global_batch)))));
  }
  return {};
}

Result<void> check_micro_batch(const JobSpec& job, const std::vector<std::int64_t>& all_ranks) {
  const std::int64_t micro_batch = job.training.micro_batch;
  if (micro_batch == 0) return {};
  for (const std::int64_t ranks : all_ranks) {
    if (!micro_batch_candidates(job.training, ranks).empty()) return {};
  }
  const std::int64_t share = job.training.global_batch / all_ranks.front();
  return fail(
      wrong_value("training.micro_batch",
                  fmt::format("{} does not divide a rank's {} sequences ({} over {} ranks)",
                              micro_batch, share, job.training.global_batch, all_ranks.front()),
                  fmt::format("\"auto\" or one of {}", list_text(divisors(share, share)))));
}

/// Sizes beyond every machine are refused before they can overflow an exact count.
Result<void> check_magnitude(const JobSpec& job) {
  constexpr double kBytesMost = 1e17;
  const ModelSpec& model = job.model;
  const auto parameters = checked_parameter_count(model);
  const double states = parameters ? 16.0 * static_cast<double>(*parameters) : 2 * kBytesMost;
  const auto real = [](std::int64_t number) { return static_cast<double>(number); };
  const double sequence = real(job.training.sequence);
  const double tokens =
      std::max(sequence * real(std::max<std::int64_t>(job.training.micro_batch, 1)),
               real(kForwardTokensMost));
  const double per_token =
      real(model.layers + 2) *
      (16.0 * real(model.hidden) + 2.0 * real(model.qkv_columns() + model.query_columns()) +
       4.0 * real(model.expanded_columns()) + 8.0 * real(model.heads));
  const double activations = 4.0 * tokens * per_token + 64.0 * real(model.vocab);
  if (states + activations <= kBytesMost) return {};
  return fail(Code::kExhausted,
              fmt::format("the job would need more than {:.0e} bytes of memory on each rank, more "
                          "than any machine has; check model and training.sequence",
                          kBytesMost));
}

/// The layouts in the order of preference.
std::vector<LayoutCandidate> candidates_of(const JobSpec& job, bool processes,
                                           const std::vector<std::int64_t>& all_ranks) {
  std::vector<LayoutCandidate> all;
  for (const std::int64_t ranks : all_ranks) {
    for (const std::int64_t micro_batch : micro_batch_candidates(job.training, ranks)) {
      all.push_back({.data = static_cast<int>(ranks),
                     .micro_batch = micro_batch,
                     .processes = processes,
                     .tensor = static_cast<int>(job.parallel.tensor),
                     .sequence = job.parallel.sequence});
    }
  }
  return all;
}

bool fits(const RankMemory& memory, Bytes available) {
  return available == Bytes(0) || memory.total() <= available;
}

std::string tags_text(const RankMemory& memory) {
  std::vector<std::string> parts;
  for (const auto& [tag, bytes] : memory.by_tag) parts.push_back(tag + " " + to_text(bytes));
  return join(parts, ", ");
}

/// The first layout that the job did not ask for but that would fit, in words.
std::string what_would_fit(const JobSpec& job, const MachineFacts& machine,
                           const LayoutCandidate& tried) {
  const std::int64_t share = job.training.global_batch / tried.data;
  const Bytes available = available_to_rank(job, machine, tried.ranks());
  LayoutCandidate other = tried;
  for (const std::int64_t micro_batch : divisors(share, tried.micro_batch - 1)) {
    other.micro_batch = micro_batch;
    if (fits(rank_memory(job, other), available)) {
      return fmt::format("training.micro_batch {} would fit", micro_batch);
    }
  }
  other.micro_batch = 1;
  for (const std::int64_t data : divisors(job.training.global_batch, tried.data - 1)) {
    other.data = static_cast<int>(data);
    if (fits(rank_memory(job, other), available_to_rank(job, machine, other.ranks()))) {
      return fmt::format("{} rank{} with training.micro_batch 1 would fit", other.ranks(),
                         other.ranks() == 1 ? "" : "s");
    }
  }
  return "only a smaller model, a shorter training.sequence or more memory would fit";
}

Error does_not_fit(const JobSpec& job, const MachineFacts& machine, const LayoutCandidate& least) {
  const RankMemory memory = rank_memory(job, least);
  const Bytes available = available_to_rank(job, machine, least.ranks());
  const Bytes missing = memory.total() - available;
  const bool limited = job.memory.host_limit > Bytes(0);
  return {
      Code::kExhausted,
      fmt::format("not enough memory: each of {} rank{} would need {} with a micro-batch of {}, "
                  "but may use {} ({}), so {} are missing; it would hold {}; {}",
                  least.ranks(), least.ranks() == 1 ? "" : "s", to_text(memory.total()),
                  least.micro_batch, to_text(available),
                  limited ? "the job's memory limit" : "its share of this machine's memory",
                  to_text(missing), tags_text(memory), what_would_fit(job, machine, least)),
      {}};
}

std::string ranks_reason(const JobSpec& job, const MachineFacts& machine, int ranks) {
  const std::string plural = ranks == 1 ? "" : "s";
  if (!job.parallel.is_auto()) {
    return fmt::format("{} data-parallel rank{}, as the job says, on {} core{}.", ranks, plural,
                       machine.cores, machine.cores == 1 ? "" : "s");
  }
  return fmt::format(
      "{} data-parallel rank{}: the most that {} core{}, the global batch of {} sequences and the "
      "memory allow.",
      ranks, plural, machine.cores, machine.cores == 1 ? "" : "s", job.training.global_batch);
}

std::string micro_batch_reason(const JobSpec& job, const LayoutCandidate& layout) {
  const TrainingSpec& training = job.training;
  const std::int64_t share = training.global_batch / layout.data;
  const std::string cut = fmt::format("{} of a rank's {} sequences", layout.micro_batch, share);
  if (training.micro_batch != 0) {
    return fmt::format("Micro-batch {}, as the job says: {} at a time.", layout.micro_batch, cut);
  }
  const auto largest = divisors(share, automatic_micro_batch_most(training));
  if (layout.micro_batch < largest.front()) {
    return fmt::format("Micro-batch {}: {}, the largest that fits the memory.", layout.micro_batch,
                       cut);
  }
  if (layout.micro_batch == share) {
    return fmt::format("Micro-batch {}: a rank's whole share in one forward of {} tokens.",
                       layout.micro_batch, grouped(share * training.sequence));
  }
  return fmt::format(
      "Micro-batch {}: {}, {} tokens a forward; matrix products gain nothing from more than about "
      "{} tokens, activations would only take more memory.",
      layout.micro_batch, cut, grouped(layout.micro_batch * training.sequence),
      grouped(kForwardTokensMost));
}

std::string tensor_reason(const ModelSpec& model, const LayoutCandidate& layout) {
  const bool few = model.key_value_heads() < layout.tensor;
  return fmt::format("{} ranks share each layer, as the job says: heads, columns and words{}{}.",
                     layout.tensor, layout.sequence ? ", and the rows between products" : "",
                     few ? "; each key and value head serves several ranks" : "");
}

std::vector<std::string> reasons_of(const JobSpec& job, const MachineFacts& machine,
                                    const LayoutCandidate& layout) {
  std::vector<std::string> reasons{ranks_reason(job, machine, layout.data)};
  if (layout.tensor > 1) reasons.push_back(tensor_reason(job.model, layout));
  reasons.push_back(micro_batch_reason(job, layout));
  return reasons;
}

/// The job's reader checks this too, but a spec can come from elsewhere.
Result<void> check_tensor(const JobSpec& job) {
  const std::int64_t tensor = job.parallel.tensor;
  if (tensor == 1) return {};
  if (job.model.is_custom()) {
    return fail(wrong_value("parallel.tensor", "a program's own model is whole on every rank",
                            "1 with model.family \"custom\""));
  }
  const std::int64_t most = std::min({job.model.heads, job.model.ffn, job.model.vocab});
  const std::int64_t rows = job.parallel.sequence ? job.training.sequence : most;
  if (tensor >= 1 && tensor <= std::min(most, rows)) return {};
  return fail(wrong_value(
      "parallel.tensor",
      fmt::format("{} ranks cannot share {} heads, {} columns, {} words{}", tensor, job.model.heads,
                  job.model.ffn, job.model.vocab,
                  job.parallel.sequence ? fmt::format(" and {} rows", job.training.sequence)
                                        : std::string()),
      fmt::format("1 to {}", std::min(most, rows))));
}

}  // namespace

Bytes available_to_rank(const JobSpec& job, const MachineFacts& machine, int ranks) {
  QD_CHECK(ranks >= 1);
  const Bytes share(machine.memory.count() / 10 * 9 / ranks);
  const Bytes limit = job.memory.host_limit;
  if (limit == Bytes(0)) return share;
  return share == Bytes(0) ? limit : std::min(limit, share);
}

Result<LayoutChoice> choose_layout(const JobSpec& job, const MachineFacts& machine) {
  QD_RETURN_IF_ERROR(check_counts(job));
  QD_RETURN_IF_ERROR(check_magnitude(job));
  QD_RETURN_IF_ERROR(check_tensor(job));
  const std::vector<std::int64_t> all_ranks = rank_candidates(job, machine);
  QD_CHECK(!all_ranks.empty());
  QD_RETURN_IF_ERROR(check_micro_batch(job, all_ranks));

  const std::vector<LayoutCandidate> candidates =
      candidates_of(job, machine.backend == "mpi", all_ranks);
  QD_CHECK(!candidates.empty());
  for (const LayoutCandidate& layout : candidates) {
    RankMemory memory = rank_memory(job, layout);
    const Bytes available = available_to_rank(job, machine, layout.ranks());
    if (!fits(memory, available)) continue;
    return LayoutChoice{layout, std::move(memory), available, reasons_of(job, machine, layout)};
  }
  return fail(does_not_fit(job, machine, candidates.back()));
}

}  // namespace quadrille::internal
