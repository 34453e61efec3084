// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/collective_cases.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/bfloat16.h"
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

float widened(float value) { return value; }
float widened(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U);
}
/// To the nearest number of the type.
template <class T>
T narrowed(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    const float nearest = test::nearest_bf16(value);
    return BFloat16{static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(nearest) >> 16U)};
  }
}

/// Every collective on tensors of one type.
template <class T>
class Cases {
 public:
  Cases(Communicator& group, std::vector<Rank> members)
      : group_(group), members_(std::move(members)) {}

  Result<void> run(std::int64_t elements, const DeviceMaker& make_device) {
    tabulate(elements);
    auto device = make_device();
    auto stream = device->make_stream();
    QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
    stream_ = stream.get();
    room_ = elements + kMostShift + kWidth * group_.size();
    const Bytes bytes(2 * room_ * kBytes);
    QD_ASSIGN_OR_RETURN(const Lease leased,
                        group_.lease(*pool, bytes, MemoryTag::kGradient, "tensor"));
    QD_ASSIGN_OR_RETURN(const Lease own, pool->lease(bytes, MemoryTag::kGradient, "tensor"));
    const std::int64_t shift = group_.rank().value * 3 % kMostShift;
    const Shape rows{elements / kWidth, kWidth};
    for (const Lease* lease : {&leased, &own}) {
      QD_RETURN_IF_ERROR(run_all(*lease, 0, Shape{elements}));
      QD_RETURN_IF_ERROR(run_all(*lease, shift, rows));
    }
    return {};
  }

 private:
  static constexpr std::int64_t kMostShift = 16;
  static constexpr std::int64_t kWidth = 3;
  static constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));

  /// A tensor in the first half of the lease, and one in the second for what moves elsewhere.
  Result<void> run_all(const Lease& lease, std::int64_t shift, Shape shape) {
    tensor_ = lease.view_at(Bytes(shift * kBytes), dtype_of<T>(), shape);
    room_of_target_ =
        lease.view_at(Bytes((room_ + shift) * kBytes), dtype_of<T>(), Shape{room_ - kMostShift});
    room_of_source_ =
        lease.view_at(Bytes(shift * kBytes), dtype_of<T>(), Shape{room_ - kMostShift});
    QD_RETURN_IF_ERROR(all_reduce());
    QD_RETURN_IF_ERROR(reduce_scatter());
    QD_RETURN_IF_ERROR(all_gather());
    for (const int root : {0, group_.size() - 1}) QD_RETURN_IF_ERROR(broadcast(Rank{root}));
    QD_RETURN_IF_ERROR(ring());
    if (shape.dimensions() < 2) return {};
    QD_RETURN_IF_ERROR(all_to_all(true));
    return all_to_all(false);
  }

  /// Every member's values, by group rank, and their sums.
  void tabulate(std::int64_t elements) {
    table_.assign(members_.size(), {});
    sums_.clear();
    for (std::int64_t i = 0; i < elements + 1; ++i) {
      float sum = 0;
      for (std::size_t r = 0; r < members_.size(); ++r) {
        const T value = narrowed<T>(value_of(members_[r], i));
        table_[r].push_back(value);
        sum = r == 0 ? widened(value) : sum + widened(value);
      }
      sums_.push_back(narrowed<T>(sum));
    }
  }
  [[nodiscard]] T stored(int rank, std::int64_t element) const {
    const std::vector<T>& values = table_[static_cast<std::size_t>(rank)];
    return values[static_cast<std::size_t>(element) % values.size()];
  }
  [[nodiscard]] T serial_sum(std::int64_t element) const {
    return sums_[static_cast<std::size_t>(element)];
  }
  void fill(const TensorView& tensor, std::int64_t first = 0) {
    std::vector<T> values;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      values.push_back(stored(group_.rank().value, first + i));
    }
    write_all<T>(*stream_, tensor, values);
  }
  [[nodiscard]] Extent shard(int rank) const {
    const std::int64_t row = tensor_.shape().dimensions() < 2 ? 1 : kWidth;
    const Extent rows = shard_extent(tensor_.shape()[0], rank, group_.size());
    return Extent{rows.first * row, rows.length * row};
  }
  [[nodiscard]] Extent everything() const { return Extent{0, tensor_.elements()}; }

  /// What the tensor holds in [first, first + length) against what it should, bit by bit.
  template <class Expected>
  Result<void> compare(const TensorView& tensor, Extent range, std::string_view what,
                       Expected expected) {
    QD_ASSIGN_OR_RETURN(const auto got, read_all<T>(*stream_, tensor));
    for (std::int64_t i = range.first; i < range.first + range.length; ++i) {
      const T right = expected(i);
      const T found = got[static_cast<std::size_t>(i)];
      if (std::memcmp(&right, &found, sizeof(T)) == 0) continue;
      return fail(Code::kCorrupt,
                  fmt::format("{} of {} {}: element {} is {}, expected {}", what,
                              kDTypeText.text(tensor.dtype()), tensor.shape().to_text(), i,
                              widened(found), widened(right)));
    }
    return {};
  }

  Result<void> all_reduce() {
    fill(tensor_);
    CollectiveScope scope = group_.open("case all_reduce");
    QD_RETURN_IF_ERROR(group_.all_reduce(scope, *stream_, tensor_));
    return compare(tensor_, everything(), "all_reduce",
                   [&](std::int64_t i) { return serial_sum(i); });
  }
  Result<void> reduce_scatter() {
    fill(tensor_);
    CollectiveScope scope = group_.open("case reduce_scatter");
    QD_RETURN_IF_ERROR(group_.reduce_scatter(scope, *stream_, tensor_));
    return compare(tensor_, shard(group_.rank().value), "reduce_scatter",
                   [&](std::int64_t i) { return serial_sum(i); });
  }
  Result<void> all_gather() {
    fill(tensor_);
    CollectiveScope scope = group_.open("case all_gather");
    QD_RETURN_IF_ERROR(group_.all_gather(scope, *stream_, tensor_));
    for (int r = 0; r < group_.size(); ++r) {
      QD_RETURN_IF_ERROR(
          compare(tensor_, shard(r), "all_gather", [&](std::int64_t i) { return stored(r, i); }));
    }
    return {};
  }
  Result<void> broadcast(Rank root) {
    fill(tensor_);
    CollectiveScope scope = group_.open("case broadcast");
    QD_RETURN_IF_ERROR(group_.broadcast(scope, *stream_, tensor_, root));
    return compare(tensor_, everything(), "broadcast",
                   [&](std::int64_t i) { return stored(root.value, i); });
  }

  /// Twice around by one place: each sends to the next rank and receives from the last. The even
  /// ranks send first, so that the ring of rendezvous does not close.
  Result<void> ring() {
    const int size = group_.size();
    if (size == 1) return {};
    const int me = group_.rank().value;
    const Rank next{(me + 1) % size};
    const Rank last{(me + size - 1) % size};
    const TensorView target = room_of_target_.flat(0, tensor_.elements());
    CollectiveScope scope = group_.open("case ring");
    for (int round = 0; round < 2; ++round) {
      fill(tensor_, round);
      if (me % 2 == 0) QD_RETURN_IF_ERROR(group_.send(scope, *stream_, tensor_, next));
      QD_RETURN_IF_ERROR(group_.recv(scope, *stream_, target, last));
      if (me % 2 == 1) QD_RETURN_IF_ERROR(group_.send(scope, *stream_, tensor_, next));
      QD_RETURN_IF_ERROR(compare(target, everything(), "recv",
                                 [&](std::int64_t i) { return stored(last.value, round + i); }));
    }
    return {};
  }

  /// Rows that `from` sends to `to`; some pairs have none.
  [[nodiscard]] std::int64_t rows_between(int from, int to, bool even) const {
    const std::int64_t rows = tensor_.shape()[0];
    if (even) return shard_extent(rows, to, group_.size()).length;
    return rows / (3 * group_.size()) * ((2 * from + 3 * to + 1) % 4);
  }
  Result<void> all_to_all(bool even) {
    constexpr std::int64_t kFar = 101;  // a block's values start here times its target
    const int me = group_.rank().value;
    RowSplits splits;
    std::int64_t sent = 0;
    std::int64_t received = 0;
    for (int r = 0; r < group_.size(); ++r) {
      splits.send.push_back(rows_between(me, r, even));
      splits.receive.push_back(rows_between(r, me, even));
      sent += splits.send.back();
      received += splits.receive.back();
    }
    if (even) splits = RowSplits::even(tensor_.shape()[0], group_.rank(), group_.size());
    const TensorView source = room_of_source_.flat(0, sent * kWidth).reshape(Shape{sent, kWidth});
    const TensorView target =
        room_of_target_.flat(0, received * kWidth).reshape(Shape{received, kWidth});
    std::int64_t first = 0;
    for (int r = 0; r < group_.size(); ++r) {
      const std::int64_t rows = rows_between(me, r, even);
      fill(source.rows(first, rows), kFar * r);
      first += rows;
    }
    CollectiveScope scope = group_.open("case all_to_all");
    QD_RETURN_IF_ERROR(group_.all_to_all(scope, *stream_, source, target, splits));
    first = 0;
    for (int r = 0; r < group_.size(); ++r) {
      const std::int64_t rows = rows_between(r, me, even);
      QD_RETURN_IF_ERROR(compare(target.rows(first, rows), Extent{0, rows * kWidth}, "all_to_all",
                                 [&](std::int64_t i) { return stored(r, kFar * me + i); }));
      first += rows;
    }
    return {};
  }

  Communicator& group_;
  std::vector<Rank> members_;
  std::vector<std::vector<T>> table_;
  std::vector<T> sums_;
  std::int64_t room_ = 0;
  Stream* stream_ = nullptr;
  TensorView tensor_;
  TensorView room_of_source_;
  TensorView room_of_target_;
};

Result<void> expect(bool condition, std::string_view what) {
  if (condition) return {};
  return fail(Code::kCorrupt, std::string(what));
}

}  // namespace

std::vector<std::int64_t> case_sizes() { return {0, 1, 2, 3, 7, 64, 1009, 16411, 300007}; }

Result<void> check_collectives(Communicator& group, const std::vector<Rank>& members,
                               const DeviceMaker& make_device) {
  Cases<float> cases(group, members);
  Cases<BFloat16> halves(group, members);
  for (const std::int64_t size : case_sizes()) {
    QD_RETURN_IF_ERROR(cases.run(size, make_device));
    QD_RETURN_IF_ERROR(halves.run(size, make_device));
  }
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
  QD_RETURN_IF_ERROR(check_collectives(*half, parity));
  QD_RETURN_IF_ERROR(check_collectives(*single, alone));
  const auto stranger = world.group(std::vector<Rank>{Rank{world.size()}});
  return expect(!stranger && stranger.error().code == Code::kInvalid, "a rank outside the world");
}

}  // namespace quadrille::testing
