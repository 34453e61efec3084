// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/streamed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "checkpoint/plain_file.h"
#include "checkpoint/staging.h"
#include "checkpoint/worker_thread.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

std::size_t whole_blocks(std::size_t count) {
  return (count + kDiskBlock - 1) / kDiskBlock * kDiskBlock;
}

/// Bytes that go to one place of the file.
struct Block {
  std::span<const std::byte> bytes;
  std::int64_t offset = 0;
};

}  // namespace

struct StreamedFile::State {
  State(Descriptor opened, std::string name, std::span<std::byte> staging)
      : descriptor(std::move(opened)), path(std::move(name)) {
    const std::size_t half = staging.size() / 2 / kDiskBlock * kDiskBlock;
    QD_CHECK(half > 0);
    halves = {staging.first(half), staging.subspan(half, half)};
  }
  ~State() { stop_thread(); }

  [[nodiscard]] Result<void> write(Block block);
  [[nodiscard]] Result<void> hand_over();
  [[nodiscard]] Result<void> write_rest();
  void start_thread();
  void stop_thread();
  void work();

  Descriptor descriptor;
  std::string path;
  std::array<std::span<std::byte>, 2> halves;
  std::size_t current = 0;  ///< The half that is being filled,
  std::size_t used = 0;     ///< so far,
  std::int64_t offset = 0;  ///< and where in the file it begins.

  std::thread writer;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Block> in_flight;  // guarded by mutex, as what follows
  Result<void> written;            ///< The first failure.
  bool closing = false;
};

Result<void> StreamedFile::State::write(Block block) {
  while (!block.bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor.get(), block.bytes.data(), block.bytes.size(), block.offset);
    if (count < 0 && errno == EINTR) continue;
    const int flags = ::fcntl(descriptor.get(), F_GETFL);
    if (count < 0 && errno == EINVAL && (flags & O_DIRECT) != 0) {
      // A file system without writes past the cache, or the odd rest of a write that was cut short.
      if (::fcntl(descriptor.get(), F_SETFL, flags & ~O_DIRECT) == 0) continue;
      errno = EINVAL;
    }
    if (count < 0) return fail(errno_error("cannot write \"" + path + "\"", errno));
    block.bytes = block.bytes.subspan(static_cast<std::size_t>(count));
    block.offset += count;
  }
  return {};
}

void StreamedFile::State::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return closing || in_flight.has_value(); });
    if (!in_flight) return;
    const Block block = *in_flight;
    lock.unlock();
    Result<void> done = write(block);
    lock.lock();
    if (written) written = std::move(done);
    in_flight.reset();
    changed.notify_all();
  }
}

/// Small files never need it.
void StreamedFile::State::start_thread() {
  if (writer.joinable()) return;
  // Without a thread writing and gathering take turns.
  (void)start_worker(writer, [this] { work(); });
}

void StreamedFile::State::stop_thread() {
  if (!writer.joinable()) return;
  {
    const std::lock_guard lock(mutex);
    closing = true;
  }
  changed.notify_all();
  writer.join();
}

/// The full half goes to the disk; the other one is free afterwards.
Result<void> StreamedFile::State::hand_over() {
  const Block block{halves[current].first(used), offset};
  start_thread();
  if (!writer.joinable()) {
    QD_RETURN_IF_ERROR(write(block));
  } else {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return !in_flight.has_value(); });
    if (!written) return written;
    in_flight = block;
    changed.notify_all();
  }
  offset += static_cast<std::int64_t>(used);
  current = 1 - current;
  used = 0;
  return {};
}

/// The last half, whose end is padded to a whole block and then cut off again.
Result<void> StreamedFile::State::write_rest() {
  stop_thread();
  if (!written) return written;
  if (used == 0) return {};
  const std::size_t padded = whole_blocks(used);
  std::memset(halves[current].data() + used, 0, padded - used);
  QD_RETURN_IF_ERROR(write({halves[current].first(padded), offset}));
  offset += static_cast<std::int64_t>(used);
  if (padded == used || ::ftruncate(descriptor.get(), offset) == 0) return {};
  return fail(errno_error("cannot cut \"" + path + "\" to its size", errno));
}

Result<StreamedFile> StreamedFile::create(const std::string& path, std::span<std::byte> staging) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  Descriptor descriptor(::open(path.c_str(), kFlags | O_DIRECT, 0666));
  if (descriptor.get() < 0 && errno == EINVAL) {
    descriptor = Descriptor(::open(path.c_str(), kFlags, 0666));
  }
  if (descriptor.get() < 0) return fail(errno_error("cannot create \"" + path + "\"", errno));
  return StreamedFile(std::make_unique<State>(std::move(descriptor), path, staging));
}

StreamedFile::StreamedFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
StreamedFile::StreamedFile(StreamedFile&&) noexcept = default;
StreamedFile& StreamedFile::operator=(StreamedFile&&) noexcept = default;
StreamedFile::~StreamedFile() = default;

Result<std::span<std::byte>> StreamedFile::room() {
  if (state_->used == state_->halves[state_->current].size()) {
    QD_RETURN_IF_ERROR(state_->hand_over());
  }
  return state_->halves[state_->current].subspan(state_->used);
}

void StreamedFile::filled(std::size_t count) {
  QD_CHECK(count <= state_->halves[state_->current].size() - state_->used);
  state_->used += count;
}

Result<void> StreamedFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    QD_ASSIGN_OR_RETURN(const std::span<std::byte> free, room());
    const std::size_t count = std::min(free.size(), bytes.size());
    std::memcpy(free.data(), bytes.data(), count);
    filled(count);
    bytes = bytes.subspan(count);
  }
  return {};
}

Result<void> StreamedFile::close() {
  QD_RETURN_IF_ERROR(state_->write_rest());
  if (::fsync(state_->descriptor.get()) == 0) return {};
  return fail(errno_error("cannot flush \"" + state_->path + "\"", errno));
}

}  // namespace quadrille::internal
