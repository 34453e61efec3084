// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/streamed_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "checkpoint/staging.h"
#include "checkpoint/worker_thread.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

constexpr auto kBlock = std::int64_t{kDiskBlock};

std::int64_t block_start(std::int64_t offset) { return offset / kBlock * kBlock; }

/// Runs that go on where the one before ended become one; empty ones go.
std::vector<FileRun> joined(const std::vector<FileRun>& runs) {
  std::vector<FileRun> all;
  for (const FileRun& run : runs) {
    if (run.bytes == Bytes(0)) continue;
    const bool continues = !all.empty() && all.back().file == run.file &&
                           all.back().begin + all.back().bytes == run.begin;
    if (continues) {
      all.back().bytes += run.bytes;
    } else {
      all.push_back(run);
    }
  }
  return all;
}

/// One read: what is wanted lies in the blocks from `begin` on.
struct Request {
  const ReadFile* file = nullptr;
  std::int64_t begin = 0;  ///< Of the first block.
  std::int64_t skip = 0;   ///< Bytes of it that are not wanted.
  std::int64_t wanted = 0;
  std::span<std::byte> memory;

  [[nodiscard]] std::span<const std::byte> result() const {
    return memory.subspan(static_cast<std::size_t>(skip), static_cast<std::size_t>(wanted));
  }
};

}  // namespace

struct StreamedReader::State {
  State(std::vector<FileRun> all, Staging memory)
      : runs(std::move(all)), staging(std::move(memory)) {
    const std::size_t size = staging.bytes().size() / 2;
    halves = {staging.bytes().first(size), staging.bytes().subspan(size, size)};
    if (!runs.empty()) place = runs.front().begin.count();
  }
  ~State() { stop_thread(); }

  [[nodiscard]] std::optional<Request> take_request();
  void begin(const Request& request);
  [[nodiscard]] Result<void> finish();
  [[nodiscard]] Result<void> read(const Request& request);
  void open_direct(const ReadFile& file);
  void start_thread();
  void stop_thread();
  void work();

  std::vector<FileRun> runs;
  Staging staging;
  std::array<std::span<std::byte>, 2> halves;
  std::size_t run = 0;     ///< What to request next: in which run,
  std::int64_t place = 0;  ///< at which offset of its file,
  std::size_t half = 0;    ///< into which half.
  std::optional<Request> ahead;
  std::span<const std::byte> rest;  ///< Of what was read before.

  // Of whoever reads: the thread, once there is one.
  const ReadFile* direct_of = nullptr;
  Descriptor direct{-1};

  std::thread reader;
  std::mutex mutex;
  std::condition_variable changed;
  bool in_flight = false;  // guarded by mutex, as what follows
  bool closing = false;
  Result<void> done;
};

std::optional<Request> StreamedReader::State::take_request() {
  if (run == runs.size()) return std::nullopt;
  const FileRun& from = runs[run];
  const std::int64_t end = (from.begin + from.bytes).count();
  Request request{.file = from.file, .begin = block_start(place), .memory = halves[half]};
  request.skip = place - request.begin;
  const auto size = static_cast<std::int64_t>(request.memory.size());
  request.wanted = std::min(end - place, size - request.skip);
  place += request.wanted;
  half = 1 - half;
  if (place == end && ++run < runs.size()) place = runs[run].begin.count();
  return request;
}

/// The file past the cache, where that can be had; by its open descriptor, because its folder may
/// have been renamed since.
void StreamedReader::State::open_direct(const ReadFile& file) {
  if (direct_of == &file) return;
  direct_of = &file;
  const std::string path = "/proc/self/fd/" + std::to_string(file.descriptor());
  direct = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
}

Result<void> StreamedReader::State::read(const Request& request) {
  open_direct(*request.file);
  const std::int64_t needed = request.skip + request.wanted;
  std::int64_t have = 0;
  // Whole blocks are asked for; at the end of the file fewer bytes come.
  while (direct.get() >= 0 && have < needed) {
    const auto whole = static_cast<std::size_t>(
        std::min<std::int64_t>(block_start(needed + kBlock - 1),
                               static_cast<std::int64_t>(request.memory.size())) -
        have);
    const ssize_t count =
        ::pread(direct.get(), request.memory.data() + have, whole, request.begin + have);
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) have += count;
    if (count <= 0 || (have < needed && have % kBlock != 0)) break;
  }
  if (have >= needed) return {};
  // The ordinary way has the rest, or says in words what is wrong.
  return request.file->read_at(Bytes(request.begin + have),
                               request.memory.subspan(static_cast<std::size_t>(have),
                                                      static_cast<std::size_t>(needed - have)));
}

void StreamedReader::State::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return closing || in_flight; });
    if (!in_flight) return;
    lock.unlock();
    Result<void> outcome = read(*ahead);
    lock.lock();
    done = std::move(outcome);
    in_flight = false;
    changed.notify_all();
  }
}

void StreamedReader::State::start_thread() {
  if (reader.joinable()) return;
  // Without a thread reading and looking take turns.
  (void)start_worker(reader, [this] { work(); });
}

void StreamedReader::State::stop_thread() {
  if (!reader.joinable()) return;
  {
    const std::lock_guard lock(mutex);
    closing = true;
  }
  changed.notify_all();
  reader.join();
}

void StreamedReader::State::begin(const Request& request) {
  ahead = request;
  const bool is_last_of_one = run == runs.size() && rest.data() == nullptr;
  if (!is_last_of_one) start_thread();
  if (!reader.joinable()) {
    done = read(request);
    return;
  }
  const std::lock_guard lock(mutex);
  in_flight = true;
  changed.notify_all();
}

Result<void> StreamedReader::State::finish() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return !in_flight; });
  return std::move(done);
}

Result<StreamedReader> StreamedReader::create(std::vector<FileRun> runs) {
  runs = joined(runs);
  Bytes all;
  for (const FileRun& run : runs) all += run.bytes + Bytes(kBlock);
  QD_ASSIGN_OR_RETURN(Staging staging, Staging::create(staging_bytes(all * 2), nullptr));
  return StreamedReader(std::make_unique<State>(std::move(runs), std::move(staging)));
}

StreamedReader::StreamedReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
StreamedReader::StreamedReader(StreamedReader&&) noexcept = default;
StreamedReader& StreamedReader::operator=(StreamedReader&&) noexcept = default;
StreamedReader::~StreamedReader() = default;

Result<std::span<const std::byte>> StreamedReader::next(std::size_t most) {
  QD_CHECK(most > 0);
  State& state = *state_;
  if (state.rest.empty()) {
    if (!state.ahead) {
      const auto first = state.take_request();
      QD_CHECK_MSG(first.has_value(), "the runs are over");
      state.begin(*first);
    }
    QD_RETURN_IF_ERROR(state.finish());
    state.rest = state.ahead->result();
    state.ahead.reset();
    if (const auto following = state.take_request()) state.begin(*following);
  }
  const auto bytes = state.rest.first(std::min(most, state.rest.size()));
  state.rest = state.rest.subspan(bytes.size());
  return bytes;
}

}  // namespace quadrille::internal
