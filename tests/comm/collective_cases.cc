// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/collective_cases.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "quadrille/base/check.h"
#include "quadrille/device/device.h"
#include "quadrille/memory/pool.h"
#include "quadrille/mesh/placement.h"

namespace quadrille::testing {
namespace {

/// Values of widely different size, so that another order of summing gives other bits.
float value_of(Rank world_rank, std::int64_t element) {
  const auto seed = static_cast<std::uint64_t>(element) * 1000003U +
                    static_cast<std::uint64_t>(world_rank.value) * 7919U + 17U;
  const std::uint64_t mixed = (seed ^ (seed >> 13U)) * 0x9E3779B97F4A7C15ULL;
  const float unit = static_cast<float>(mixed >> 40U) / static_cast<float>(1U << 24U) - 0.5F;
  return std::ldexp(unit, static_cast<int>(mixed % 23U) - 11);
}

float serial_sum(const std::vector<Rank>& members, std::int64_t element) {
  float sum = value_of(members.front(), element);
  for (std::size_t r = 1; r < members.size(); ++r) sum += value_of(members[r], element);
  return sum;
}

/// What the tensor holds in [first, first + length) against what it should.
template <class Expected>
Result<void> compare(const std::vector<float>& got, Extent range, std::string_view what,
                     Expected expected) {
  for (std::int64_t i = range.first; i < range.first + range.length; ++i) {
    const float right = expected(i);
    const float found = got[static_cast<std::size_t>(i)];
    if (std::bit_cast<std::uint32_t>(right) == std::bit_cast<std::uint32_t>(found)) continue;
    return fail(Code::kCorrupt, fmt::format("{} of {} elements: element {} is {}, expected {}",
                                            what, got.size(), i, found, right));
  }
  return {};
}

class Cases {
 public:
  Cases(World& world, Communicator& group, std::vector<Rank> members)
      : world_(world), group_(group), members_(std::move(members)) {}

  Result<void> run(std::int64_t elements, const DeviceMaker& make_device) {
    elements_ = elements;
    auto device = make_device();
    auto stream = device->make_stream();
    QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
    stream_ = stream.get();
    const Bytes bytes((elements + kMostShift) * 4);
    QD_ASSIGN_OR_RETURN(const Lease leased,
                        group_.lease(*pool, bytes, MemoryTag::kGradient, "tensor"));
    QD_ASSIGN_OR_RETURN(const Lease own, pool->lease(bytes, MemoryTag::kGradient, "tensor"));
    const Bytes shift(4 * (group_.rank().value * 3 % kMostShift));
    for (const TensorView& tensor : {leased.view(DType::kF32, Shape{elements}),
                                     leased.view_at(shift, DType::kF32, Shape{elements}),
                                     own.view_at(shift, DType::kF32, Shape{elements})}) {
      tensor_ = tensor;
      QD_RETURN_IF_ERROR(run_all());
    }
    return {};
  }

 private:
  static constexpr std::int64_t kMostShift = 16;

  Result<void> run_all() {
    QD_RETURN_IF_ERROR(all_reduce());
    QD_RETURN_IF_ERROR(reduce_scatter());
    QD_RETURN_IF_ERROR(all_gather());
    for (int root = 0; root < group_.size(); ++root) QD_RETURN_IF_ERROR(broadcast(Rank{root}));
    return {};
  }

  void fill() {
    std::vector<float> values;
    for (std::int64_t i = 0; i < elements_; ++i) values.push_back(value_of(world_.rank(), i));
    write_all<float>(*stream_, tensor_, values);
  }
  [[nodiscard]] Extent everything() const { return Extent{0, elements_}; }

  Result<void> all_reduce() {
    fill();
    CollectiveScope scope = group_.open("case all_reduce");
    QD_RETURN_IF_ERROR(group_.all_reduce(scope, *stream_, tensor_));
    QD_ASSIGN_OR_RETURN(const auto got, read_all<float>(*stream_, tensor_));
    return compare(got, everything(), "all_reduce",
                   [&](std::int64_t i) { return serial_sum(members_, i); });
  }
  Result<void> reduce_scatter() {
    fill();
    CollectiveScope scope = group_.open("case reduce_scatter");
    QD_RETURN_IF_ERROR(group_.reduce_scatter(scope, *stream_, tensor_));
    QD_ASSIGN_OR_RETURN(const auto got, read_all<float>(*stream_, tensor_));
    return compare(got, shard_extent(elements_, group_.rank().value, group_.size()),
                   "reduce_scatter", [&](std::int64_t i) { return serial_sum(members_, i); });
  }
  Result<void> all_gather() {
    fill();
    CollectiveScope scope = group_.open("case all_gather");
    QD_RETURN_IF_ERROR(group_.all_gather(scope, *stream_, tensor_));
    QD_ASSIGN_OR_RETURN(const auto got, read_all<float>(*stream_, tensor_));
    for (int r = 0; r < group_.size(); ++r) {
      const Rank owner = members_[static_cast<std::size_t>(r)];
      QD_RETURN_IF_ERROR(compare(got, shard_extent(elements_, r, group_.size()), "all_gather",
                                 [&](std::int64_t i) { return value_of(owner, i); }));
    }
    return {};
  }
  Result<void> broadcast(Rank root) {
    fill();
    CollectiveScope scope = group_.open("case broadcast");
    QD_RETURN_IF_ERROR(group_.broadcast(scope, *stream_, tensor_, root));
    QD_ASSIGN_OR_RETURN(const auto got, read_all<float>(*stream_, tensor_));
    const Rank owner = members_[static_cast<std::size_t>(root.value)];
    return compare(got, everything(), "broadcast",
                   [&](std::int64_t i) { return value_of(owner, i); });
  }

  World& world_;
  Communicator& group_;
  std::vector<Rank> members_;
  std::int64_t elements_ = 0;
  Stream* stream_ = nullptr;
  TensorView tensor_;
};

Result<void> expect(bool condition, std::string_view what) {
  if (condition) return {};
  return fail(Code::kCorrupt, std::string(what));
}

}  // namespace

std::vector<std::int64_t> case_sizes() { return {0, 1, 2, 3, 7, 64, 1009, 16411, 300007}; }

Result<void> check_collectives(World& world, Communicator& group, const std::vector<Rank>& members,
                               const DeviceMaker& make_device) {
  Cases cases(world, group, members);
  for (const std::int64_t size : case_sizes()) QD_RETURN_IF_ERROR(cases.run(size, make_device));
  return {};
}

Result<void> check_control(World& world) {
  Communicator& whole = world.whole();
  const int me = world.rank().value;
  CollectiveScope scope = whole.open("control");
  QD_RETURN_IF_ERROR(whole.barrier(scope));
  const std::string mine(static_cast<std::size_t>(me) * 1000, static_cast<char>('a' + me));
  QD_ASSIGN_OR_RETURN(const auto all, whole.gather_bytes(scope, mine));
  for (int r = 0; r < world.size(); ++r) {
    const std::string right(static_cast<std::size_t>(r) * 1000, static_cast<char>('a' + r));
    QD_RETURN_IF_ERROR(expect(all[static_cast<std::size_t>(r)] == right, "gather_bytes differs"));
  }
  std::vector<double> values = {1.0, me + 0.25, me == 0 ? 1e17 : 1.0};
  QD_RETURN_IF_ERROR(whole.sum(scope, values));
  double last = 0;  // in rank order each 1.0 is lost beside 1e17; in another order it is not
  double second = 0;
  for (int r = 0; r < world.size(); ++r) {
    second += r + 0.25;
    last += r == 0 ? 1e17 : 1.0;
  }
  QD_RETURN_IF_ERROR(expect(values == std::vector<double>({1.0 * world.size(), second, last}),
                            "sum of doubles differs"));
  QD_ASSIGN_OR_RETURN(const Agreement quiet, world.agree({std::nullopt, false, 10 + me}));
  QD_RETURN_IF_ERROR(expect(!quiet.error && !quiet.stop && quiet.least_value == 10, "agreement"));
  Vote vote{std::nullopt, me == world.size() - 1, 5};
  if (me > 0) vote.error = Error{Code::kExhausted, fmt::format("disk {} full", me), {}};
  QD_ASSIGN_OR_RETURN(const Agreement loud, world.agree(vote));
  QD_RETURN_IF_ERROR(expect(loud.stop && loud.error.has_value() == (world.size() > 1), "votes"));
  if (!loud.error) return {};
  return expect(loud.culprit == Rank{1} && loud.error->code == Code::kExhausted &&
                    loud.error->message == "rank 1: disk 1 full",
                "the lowest failing rank's error");
}

Result<void> check_groups(World& world) {
  const int me = world.rank().value;
  std::vector<Rank> parity;
  std::vector<Rank> everyone;
  for (int r = 0; r < world.size(); ++r) {
    if (r % 2 == me % 2) parity.push_back(Rank{r});
    everyone.push_back(Rank{r});
  }
  QD_ASSIGN_OR_RETURN(Communicator* const half, world.group(parity));
  QD_ASSIGN_OR_RETURN(Communicator* const again, world.group(parity));
  QD_ASSIGN_OR_RETURN(Communicator* const all, world.group(everyone));
  const std::vector<Rank> alone = {world.rank()};
  QD_ASSIGN_OR_RETURN(Communicator* const single, world.group(alone));
  QD_RETURN_IF_ERROR(expect(half == again && all == &world.whole(), "one communicator per set"));
  QD_RETURN_IF_ERROR(expect(half->rank().value == me / 2, "rank in the group"));
  QD_RETURN_IF_ERROR(check_collectives(world, *half, parity));
  QD_RETURN_IF_ERROR(check_collectives(world, *single, alone));
  const auto stranger = world.group(std::vector<Rank>{Rank{world.size()}});
  return expect(!stranger && stranger.error().code == Code::kInvalid, "a rank outside the world");
}

}  // namespace quadrille::testing
