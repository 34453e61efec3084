// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/observe/flight_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "observe/flight_ring.h"
#include "quadrille/base/shared_memory.h"

namespace quadrille {

using internal::FlightHeader;
using internal::FlightRing;
using internal::kFlightSlots;

struct FlightTable::Mapping {
  explicit Mapping(SharedMemory mapped) : memory(std::move(mapped)) {}
  [[nodiscard]] FlightHeader& header() const {
    return *std::launder(reinterpret_cast<FlightHeader*>(memory.bytes().data()));
  }
  [[nodiscard]] FlightRing& ring(Rank rank) const {
    QD_CHECK(rank.value >= 0 && rank.value < header().ranks);
    return std::launder(
        reinterpret_cast<FlightRing*>(memory.bytes().data() + sizeof(FlightHeader)))[rank.value];
  }
  [[nodiscard]] static std::size_t size_for(int ranks) {
    return sizeof(FlightHeader) + static_cast<std::size_t>(ranks) * sizeof(FlightRing);
  }
  SharedMemory memory;
};

namespace {
std::string table_name(const std::string& run_id) { return "quadrille-" + run_id; }
}  // namespace

Result<FlightTable> FlightTable::create(const std::string& run_id, int ranks) {
  QD_CHECK(ranks >= 1);
  if (run_id.size() >= internal::kFlightRunIdBytes) {
    return fail(Code::kInvalid, "the run id \"" + run_id + "\" is too long");
  }
  const std::size_t size = Mapping::size_for(ranks);
  (void)remove_if_unused(table_name(run_id));  // a dead run of the same id
  QD_ASSIGN_OR_RETURN(
      SharedMemory memory,
      SharedMemory::create(table_name(run_id), Bytes(static_cast<std::int64_t>(size))));
  std::byte* start = memory.bytes().data();
  auto* header = new (start) FlightHeader{};
  for (int rank = 0; rank < ranks; ++rank) {
    new (start + sizeof(FlightHeader) + static_cast<std::size_t>(rank) * sizeof(FlightRing))
        FlightRing{};
  }
  header->magic = internal::kFlightMagic;
  header->version = internal::kFlightVersion;
  header->ranks = ranks;
  header->launcher_pid = getpid();
  std::memcpy(header->run_id, run_id.data(), run_id.size());
  header->complete.store(1, std::memory_order_release);
  return FlightTable(std::make_unique<Mapping>(std::move(memory)));
}

Result<FlightTable> FlightTable::open(const std::string& run_id) {
  QD_ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::open(table_name(run_id)));
  const std::size_t size = memory.bytes().size();
  auto mapping = std::make_unique<Mapping>(std::move(memory));
  const auto corrupt = [&](const char* why) {
    return fail(Code::kCorrupt,
                "shared memory \"" + table_name(run_id) + "\" is no flight table: " + why);
  };
  if (size < sizeof(FlightHeader)) return corrupt("it is too short");
  const FlightHeader& header = mapping->header();
  if (header.complete.load(std::memory_order_acquire) != 1)
    return corrupt("its maker has not finished");
  if (header.magic != internal::kFlightMagic) return corrupt("it does not begin as one");
  if (header.version != internal::kFlightVersion)
    return corrupt("it is of another version of Quadrille");
  if (header.ranks < 1 || size != Mapping::size_for(header.ranks))
    return corrupt("its length is wrong");
  return FlightTable(std::move(mapping));
}

Result<FlightTable> FlightTable::join(const std::string& run_id, int ranks) {
  constexpr int kTries = 500;  // of 10 ms: another process may be making it
  for (int tried = 0;; ++tried) {
    auto table = open(run_id);
    if (!table && table.error().code == Code::kNotFound) table = create(run_id, ranks);
    if (table || tried == kTries) return table;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

FlightTable::FlightTable(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}
FlightTable::FlightTable(FlightTable&&) noexcept = default;
FlightTable& FlightTable::operator=(FlightTable&&) noexcept = default;
FlightTable::~FlightTable() = default;

void FlightTable::remove() { mapping_->memory.unlink(); }
bool FlightTable::is_own() const { return launcher() == getpid(); }
int FlightTable::ranks() const { return mapping_->header().ranks; }
int FlightTable::launcher() const { return static_cast<int>(mapping_->header().launcher_pid); }

void FlightTable::set_process(Rank rank, int pid) { mapping_->ring(rank).pid = pid; }
int FlightTable::process(Rank rank) const { return static_cast<int>(mapping_->ring(rank).pid); }
void FlightTable::set_step(Rank rank, std::int64_t step) { mapping_->ring(rank).step = step; }
std::int64_t FlightTable::step(Rank rank) const { return mapping_->ring(rank).step; }
void FlightTable::set_returned(Rank rank) { mapping_->ring(rank).returned = 1; }
bool FlightTable::returned(Rank rank) const { return mapping_->ring(rank).returned != 0; }

void FlightTable::enter(Rank rank, const FlightEntry& entry) {
  FlightRing& ring = mapping_->ring(rank);
  const std::uint64_t number = ring.written.load(std::memory_order_relaxed);
  ring.slots[number % kFlightSlots].write(entry);
  ring.written.store(number + 1, std::memory_order_release);
}

void FlightTable::finish(Rank rank, std::uint64_t group) {
  FlightRing& ring = mapping_->ring(rank);
  const std::uint64_t written = ring.written.load(std::memory_order_relaxed);
  const std::uint64_t oldest = written - std::min<std::uint64_t>(written, kFlightSlots);
  for (std::uint64_t number = written; number > oldest; --number) {
    internal::FlightSlot& slot = ring.slots[(number - 1) % kFlightSlots];
    const auto entry = slot.read();
    if (entry && entry->group == group) return slot.finish();
  }
}

std::vector<FlightEntry> FlightTable::entries(Rank rank, std::size_t most) const {
  const FlightRing& ring = mapping_->ring(rank);
  const std::uint64_t written = ring.written.load(std::memory_order_acquire);
  const std::uint64_t count = std::min({written, std::uint64_t{kFlightSlots}, std::uint64_t{most}});
  std::vector<FlightEntry> entries;
  for (std::uint64_t number = written - count; number < written; ++number) {
    if (auto entry = ring.slots[number % kFlightSlots].read()) entries.push_back(std::move(*entry));
  }
  return entries;
}

std::vector<std::string> remove_stale_shared_memory() {
  std::vector<std::string> removed;
  for (const std::string& name : list_shared_memory("quadrille-")) {
    if (remove_if_unused(name)) removed.push_back(name);
  }
  return removed;
}

}  // namespace quadrille
