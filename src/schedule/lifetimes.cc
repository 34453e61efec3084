// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/schedule/lifetimes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "quadrille/base/check.h"

namespace quadrille {
namespace {

constexpr std::int64_t kAlignment = 64;

/// When each layer runs, in instructions since its micro-batch was loaded; the same for all
/// micro-batches.
struct PassTimes {
  std::map<std::int64_t, std::int64_t> forward;
  std::map<std::int64_t, std::int64_t> backward;
  friend bool operator==(const PassTimes&, const PassTimes&) = default;
};

/// QD_CHECKs that micro-batches run one after the other and alike.
PassTimes pass_times(std::span<const Instruction> instructions) {
  std::optional<PassTimes> first;
  std::optional<PassTimes> current;
  std::int64_t micro_batch = -1;
  std::int64_t time = 0;
  const auto close = [&] {
    if (!current) return;
    if (!first) first = current;
    QD_CHECK(*first == *current);
    current.reset();
  };
  for (const Instruction& instruction : instructions) {
    switch (instruction.kind) {
      case InstructionKind::kLoadBatch:
        close();
        current.emplace();
        micro_batch = instruction.micro_batch;
        time = 0;
        break;
      case InstructionKind::kForward:
      case InstructionKind::kBackward: {
        QD_CHECK_MSG(current && instruction.micro_batch == micro_batch,
                     to_text(instruction) + ": more than one micro-batch in flight");
        auto& times =
            instruction.kind == InstructionKind::kForward ? current->forward : current->backward;
        QD_CHECK(times.emplace(instruction.layer, time).second);
        break;
      }
      case InstructionKind::kReduceGradients:
      case InstructionKind::kOptimizerStep:
        break;
    }
    ++time;
  }
  close();
  QD_CHECK(first.has_value());
  return *first;
}

/// One buffer while it is being placed; first > last where it is never needed.
struct Buffer {
  std::int64_t first = 0;
  std::int64_t last = -1;
  std::int64_t bytes = 0;
  std::int64_t offset = 0;
  [[nodiscard]] bool lives_with(const Buffer& other) const {
    return first <= other.last && other.first <= last;
  }
};

std::optional<std::int64_t> at(const std::map<std::int64_t, std::int64_t>& times,
                               std::int64_t layer) {
  const auto found = times.find(layer);
  if (found == times.end()) return std::nullopt;
  return found->second;
}

Buffer buffer_of(const BufferRequest& request, const PassTimes& times) {
  QD_CHECK(request.bytes >= Bytes(0));
  const auto forward = at(times.forward, request.layer);
  const auto backward = at(times.backward, request.layer);
  QD_CHECK_MSG(forward.has_value(), "layer " + std::to_string(request.layer) + " never runs here");
  Buffer buffer;
  buffer.bytes = (request.bytes + Bytes(kAlignment - 1)).count() / kAlignment * kAlignment;
  const auto live = [&](std::int64_t first, std::int64_t last) {
    buffer.first = first;
    buffer.last = last;
  };
  switch (request.life) {
    case BufferLife::kSaved:
      live(*forward, backward.value_or(*forward));
      break;
    case BufferLife::kOutput: {
      // The next layer reads it; without one, or without backward passes, its use ends earlier.
      const auto reader = at(times.backward, request.layer + 1);
      const auto next = at(times.forward, request.layer + 1);
      live(*forward,
           reader.value_or(std::max(next.value_or(*forward), backward.value_or(*forward))));
      break;
    }
    case BufferLife::kForward:
      live(*forward, *forward);
      break;
    case BufferLife::kBackward:
      if (backward) live(*backward, *backward);
      break;
    case BufferLife::kGradient:
      if (backward) live(*backward, at(times.backward, request.layer - 1).value_or(*backward));
      break;
  }
  return buffer;
}

/// The lowest offset of the smallest gap that takes the buffer, among the placed ones (by offset)
/// that live with it; after the last of them where no gap does.
std::int64_t best_offset(const Buffer& buffer, const std::vector<const Buffer*>& placed) {
  std::int64_t end = 0;  // of all that lies lower
  std::int64_t best = -1;
  std::int64_t best_gap = 0;
  for (const Buffer* other : placed) {
    if (!other->lives_with(buffer)) continue;
    const std::int64_t gap = other->offset - end;
    if (gap >= buffer.bytes && (best < 0 || gap < best_gap)) {
      best = end;
      best_gap = gap;
    }
    end = std::max(end, other->offset + other->bytes);
  }
  return best >= 0 ? best : end;
}

/// Places the buffers in the given order and returns the arena's bytes.
std::int64_t place_in_order(std::vector<Buffer>& buffers, const std::vector<std::size_t>& order) {
  std::vector<const Buffer*> placed;
  std::int64_t total = 0;
  for (const std::size_t index : order) {
    Buffer& buffer = buffers[index];
    if (buffer.bytes == 0 || buffer.first > buffer.last) continue;
    buffer.offset = best_offset(buffer, placed);
    total = std::max(total, (Bytes(buffer.offset) + Bytes(buffer.bytes)).count());
    const auto higher = [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &buffer, higher), &buffer);
  }
  return total;
}

/// Indices with the largest key first; equal keys in the order of the requests.
template <class Key>
std::vector<std::size_t> descending(const std::vector<Buffer>& buffers, Key key) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(buffers[a]) > key(buffers[b]); });
  return order;
}

}  // namespace

ArenaLayout lay_out_arena(std::span<const Instruction> instructions,
                          std::span<const BufferRequest> requests) {
  const PassTimes times = pass_times(instructions);
  std::vector<Buffer> buffers;
  buffers.reserve(requests.size());
  for (const BufferRequest& request : requests) buffers.push_back(buffer_of(request, times));

  // No order is best for every net; the smallest arena of three costs little to find.
  const auto size = [](const Buffer& b) { return static_cast<double>(b.bytes); };
  const auto life = [](const Buffer& b) { return static_cast<double>(b.last - b.first + 1); };
  const auto area = [&](const Buffer& b) { return size(b) * life(b); };
  const std::vector<std::size_t> orders[] = {descending(buffers, size), descending(buffers, life),
                                             descending(buffers, area)};
  std::vector<Buffer> best;
  std::int64_t total = 0;
  for (const auto& order : orders) {
    std::vector<Buffer> candidate = buffers;
    const std::int64_t bytes = place_in_order(candidate, order);
    if (!best.empty() && bytes >= total) continue;
    best = std::move(candidate);
    total = bytes;
  }
  ArenaLayout layout;
  layout.total = Bytes(total);
  for (const Buffer& buffer : best) layout.offsets.push_back(Bytes(buffer.offset));
  return layout;
}

}  // namespace quadrille
