// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "support/stream_order.h"

#include <algorithm>

#include "quadrille/base/check.h"

namespace quadrille::testing {
namespace {

void merge(StreamClock& into, const StreamClock& from) {
  for (const auto& [stream, number] : from) into[stream] = std::max(into[stream], number);
}

}  // namespace

std::vector<StreamOrder::Range> StreamOrder::ranges_of(std::span<const Operand> operands) {
  std::vector<Range> ranges;
  for (const Operand& operand : operands) {
    if (operand.view.empty()) continue;
    const auto* first = static_cast<const std::byte*>(operand.view.address());
    ranges.push_back(
        {first, first + operand.view.bytes().count(), operand.access != Access::kRead});
  }
  return ranges;
}

bool StreamOrder::conflict(const std::vector<Range>& a, const std::vector<Range>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Range& x) {
    return std::any_of(b.begin(), b.end(), [&](const Range& y) {
      return (x.writes || y.writes) && x.first < y.last && y.first < x.last;
    });
  });
}

std::uint64_t StreamOrder::add(int stream, std::string_view operation,
                               std::span<const Operand> operands) {
  Pending next{stream, 0, std::string(operation), ranges_of(operands)};
  StreamClock& clock = clocks_[stream];
  merge(clock, host_);
  for (const Pending& earlier : pending_) {
    if (earlier.stream == stream || earlier.number <= clock[earlier.stream]) continue;
    QD_CHECK_MSG(!conflict(next.ranges, earlier.ranges),
                 next.operation + " of stream " + std::to_string(stream) + " conflicts with " +
                     earlier.operation + " of stream " + std::to_string(earlier.stream) +
                     ", and nothing orders them");
  }
  next.number = ++clock[stream];
  pending_.push_back(std::move(next));
  return clock[stream];
}

StreamClock StreamOrder::record(int stream) const {
  const auto clock = clocks_.find(stream);
  return clock == clocks_.end() ? StreamClock{} : clock->second;
}

void StreamOrder::wait(int stream, const StreamClock& event) { merge(clocks_[stream], event); }

void StreamOrder::synchronize(int stream) {
  merge(host_, record(stream));
  std::erase_if(pending_, [&](const Pending& operation) {
    const auto waited = host_.find(operation.stream);
    return waited != host_.end() && operation.number <= waited->second;
  });
}

void StreamOrder::check_released(const void* memory, std::size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(memory);
  const std::vector<Range> released{{first, first + bytes, true}};
  for (const Pending& operation : pending_) {
    QD_CHECK_MSG(!conflict(released, operation.ranges),
                 "memory is released while " + operation.operation + " is pending");
  }
}

}  // namespace quadrille::testing
