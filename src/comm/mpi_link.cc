// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_link.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <ctime>
#include <utility>

#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

constexpr int kDepartureTag = 0;  // groups count from 1
// A rank's last data may still be on its way here when its departure is seen.
constexpr Seconds kGraceOfReturned(0.5);
constexpr Seconds kGraceOfFailure(0.5);
constexpr Seconds kBetweenLooksAtProcesses(0.1);  // a look reads a file of /proc for each

/// A process that MPI was not told about runs as a world of its own. The standard leaves the
/// working directory out of MPI_INFO_ENV where nobody started the process.
bool started_by_hand(int size) {
  if (size > 1) return false;
  int found = 0;
  std::array<char, MPI_MAX_INFO_VAL> value{};
  MPI_Info_get(MPI_INFO_ENV, "wdir", MPI_MAX_INFO_VAL - 1, value.data(), &found);
  return found == 0;
}

}  // namespace

/// The ranks that a wait is for.
class MpiLink::Absent final : public Awaited {
 public:
  Absent(MpiLink& link, const Transfers& transfers) : link_(link), transfers_(transfers) {}
  std::vector<Rank> missing() const override { return transfers_.pending_peers(); }
  std::optional<Error> lost() override {
    link_.look_for_departures();
    return link_.lost(missing());
  }

 private:
  MpiLink& link_;
  const Transfers& transfers_;
};

Result<std::unique_ptr<MpiLink>> MpiLink::start(const WorldOptions& options) {
  if (options.message < Bytes(8) || options.message > 1_GiB) {
    return fail(Code::kInvalid,
                "the largest message must have 8 B to 1 GiB, not " + to_text(options.message));
  }
  int before = 0;
  MPI_Initialized(&before);
  if (before != 0) return fail(Code::kInvalid, "MPI runs once in a process and has run in this");
  int provided = MPI_THREAD_SINGLE;
  const int started = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (started != MPI_SUCCESS || provided < MPI_THREAD_FUNNELED) {
    return fail(Code::kUnavailable, "MPI does not start beside the threads of a rank");
  }
  std::unique_ptr<MpiLink> link(new MpiLink(options));
  QD_RETURN_IF_ERROR(link->learn_world());
  if (started_by_hand(link->size_)) {
    MPI_Finalize();
    return fail(Code::kUnavailable,
                "this process was not started as an MPI rank; start it by mpirun or srun, for "
                "example: mpirun -n 2 PROGRAM");
  }
  QD_RETURN_IF_ERROR(link->expect_departures());
  return link;
}

Result<void> MpiLink::learn_world() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  // Our messages must not mix with those of a library that uses MPI_COMM_WORLD.
  if (MPI_Comm_dup(MPI_COMM_WORLD, &communicator_) != MPI_SUCCESS) {
    return fail(Code::kUnavailable, "MPI cannot duplicate its communicator");
  }
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(communicator_, &rank_.value);
  MPI_Comm_size(communicator_, &size_);
  MPI_Comm host = MPI_COMM_NULL;
  if (MPI_Comm_split_type(communicator_, MPI_COMM_TYPE_SHARED, rank_.value, MPI_INFO_NULL, &host) !=
      MPI_SUCCESS) {
    return fail(Code::kUnavailable, "MPI cannot tell which ranks share this host");
  }
  MPI_Comm_rank(host, &local_rank_.value);
  MPI_Comm_size(host, &ranks_on_host_);
  int first_of_host = rank_.value;
  MPI_Bcast(&first_of_host, 1, MPI_INT, 0, host);
  CoreMask cores = own_cores();  // a rank bound to one core has the others' to itself no less
  MPI_Allreduce(MPI_IN_PLACE, cores.data(), static_cast<int>(cores.size()), MPI_UINT64_T, MPI_BOR,
                host);
  int count = 0;
  for (const std::uint64_t word : cores) count += std::popcount(word);
  exceeds_cores_ = ranks_on_host_ > count;
  MPI_Comm_free(&host);
  QD_RETURN_IF_ERROR(learn_peers(first_of_host));
  device_ = make_host_device();
  QD_ASSIGN_OR_RETURN(pool_, Pool::create({device_.get(), Bytes(0), "MPI staging"}));
  return {};
}

Result<void> MpiLink::learn_peers(int first_of_host) {
  const std::array<int, 2> mine = {first_of_host, getpid()};
  std::vector<int> all(2 * static_cast<std::size_t>(size_));
  std::array<char, 128> run{};
  const std::string chosen =
      options_.run_id.empty() ? fmt::format("mpi-{}-{}", getpid(), time(nullptr)) : options_.run_id;
  chosen.copy(run.data(), run.size() - 1);
  if (MPI_Allgather(mine.data(), 2, MPI_INT, all.data(), 2, MPI_INT, communicator_) !=
          MPI_SUCCESS ||
      MPI_Bcast(run.data(), static_cast<int>(run.size()), MPI_CHAR, 0, communicator_) !=
          MPI_SUCCESS) {
    return fail(Code::kUnavailable, "MPI cannot exchange what the ranks know of their hosts");
  }
  run_id_ = run.data();
  peers_.resize(static_cast<std::size_t>(size_));
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    peers_[r].host = all[2 * r];
    peers_[r].pid = all[2 * r + 1];
    // They are alive now; one that seems dead has its number from another process namespace.
    if (peers_[r].host == first_of_host && is_dead(peers_[r].pid)) peers_[r].pid = 0;
  }
  return {};
}

bool MpiLink::share_host(const std::vector<Rank>& ranks) const {
  return std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) {
    return peers_[static_cast<std::size_t>(rank.value)].host ==
           peers_[static_cast<std::size_t>(ranks.front().value)].host;
  });
}

std::optional<Error> MpiLink::lost_among(const std::vector<Rank>& members,
                                         const std::vector<Rank>& missing) {
  look_for_departures();
  if (auto cause = lost(missing)) return cause;
  const Seconds now = monotonic_now();
  if (now < next_look_at_processes_) return std::nullopt;
  next_look_at_processes_ = now + kBetweenLooksAtProcesses;
  const int here = peers_[static_cast<std::size_t>(rank_.value)].host;
  for (const Rank rank : members) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank.value)];
    if (peer.host != here || peer.departed || !is_dead(peer.pid)) continue;
    return Error{
        Code::kUnavailable, fmt::format("rank {} (pid {}) has died", rank.value, peer.pid), {}};
  }
  return std::nullopt;
}

Result<void> MpiLink::expect_departures() {
  for (int r = 0; r < size_; ++r) {
    Peer& peer = peers_[static_cast<std::size_t>(r)];
    if (Rank{r} == rank_) continue;
    if (MPI_Irecv(&peer.departure, sizeof(Departure), MPI_BYTE, r, kDepartureTag, communicator_,
                  &peer.request) != MPI_SUCCESS) {
      return fail(Code::kUnavailable, fmt::format("MPI cannot receive from rank {}", r));
    }
  }
  return {};
}

void MpiLink::look_for_departures() {
  for (Peer& peer : peers_) {
    if (peer.request == MPI_REQUEST_NULL) continue;
    int done = 0;
    if (MPI_Test(&peer.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0) {
      peer.departed = monotonic_now();
    }
  }
}

std::optional<Error> MpiLink::lost(const std::vector<Rank>& missing) {
  for (int r = 0; r < size_; ++r) {
    const Peer& peer = peers_[static_cast<std::size_t>(r)];
    if (!peer.departed || peer.departure.code < 0) continue;
    const std::string message(peer.departure.message.data());
    const auto code = static_cast<Code>(peer.departure.code);
    // A rank that gave up because of another passes on what it knows of that one.
    if (code == Code::kAborted || code == Code::kTimeout || code == Code::kUnavailable) {
      return Error{code, message, {}};
    }
    return Error{Code::kAborted, fmt::format("rank {} failed: {}", r, message), {}};
  }
  std::vector<Rank> gone;
  for (const Rank rank : missing) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank.value)];
    if (peer.departed && monotonic_now() - *peer.departed > kGraceOfReturned) gone.push_back(rank);
  }
  if (gone.empty()) return std::nullopt;
  return Error{Code::kUnavailable,
               describe(gone) + (gone.size() == 1 ? " has" : " have") +
                   " returned while others still communicate",
               {}};
}

Result<void> MpiLink::wait(Transfers& transfers, Watch& watch) {
  QD_CHECK(!broken_);
  Absent absent(*this, transfers);
  Result<void> result;
  while (true) {
    const auto done = transfers.poll();
    if (done && *done) return {};
    result = done ? watch.turn(absent) : tl::unexpected<Error>(done.error());
    if (!result) break;
  }
  broken_ = result.error();
  unsafe_ = !transfers.cancel();
  return result;
}

Result<std::byte*> MpiLink::staging(Bytes bytes) {
  if (bytes == Bytes(0)) return nullptr;
  if (staging_.bytes() < bytes) {
    staging_ = Lease();  // the old one first: both together are never needed
    QD_ASSIGN_OR_RETURN(staging_, pool_->lease(bytes, MemoryTag::kCommunication, "messages"));
  }
  return static_cast<std::byte*>(staging_.view(DType::kU8, Shape{bytes.count()}).address());
}

void MpiLink::send_departures(Transfers& transfers, const Departure& departure) {
  own_departure_ = departure;
  const std::span<const Departure> one(&own_departure_, 1);
  for (int r = 0; r < size_; ++r) {
    if (Rank{r} == rank_) continue;
    transfers.send(std::as_bytes(one), Rank{r}, kDepartureTag);
  }
}

Result<void> MpiLink::finish(const Group& whole) {
  if (broken_) return fail(*broken_);
  Transfers sent = transfers();
  send_departures(sent, Departure{});
  const Call call{"return", 0, "the end of the run", -1, 0};
  Watch watch(whole, call);
  QD_RETURN_IF_ERROR(wait(sent, watch));
  // The others' departures are the barrier before MPI_Finalize, which would wait without a
  // deadline.
  struct Others final : Awaited {
    explicit Others(MpiLink& owner) : link(owner) {}
    std::vector<Rank> missing() const override {
      std::vector<Rank> ranks;
      for (int r = 0; r < link.size_; ++r) {
        if (link.peers_[static_cast<std::size_t>(r)].request != MPI_REQUEST_NULL) {
          ranks.push_back(Rank{r});
        }
      }
      return ranks;
    }
    std::optional<Error> lost() override { return link.lost({}); }
    MpiLink& link;
  } others(*this);
  while (true) {
    look_for_departures();
    if (auto cause = lost({})) return fail(*std::move(cause));
    if (others.missing().empty()) break;
    QD_RETURN_IF_ERROR(watch.turn(others));
  }
  staging_ = Lease();
  MPI_Comm_free(&communicator_);
  if (MPI_Finalize() != MPI_SUCCESS) return fail(Code::kUnavailable, "MPI does not end properly");
  return {};
}

void MpiLink::fail_with(const Error& error) {
  if (unsafe_) return;
  Departure departure;
  departure.code = static_cast<std::int32_t>(error.code);
  const std::size_t length = std::min(error.message.size(), departure.message.size() - 1);
  std::memcpy(departure.message.data(), error.message.data(), length);
  Transfers sent = transfers();
  send_departures(sent, departure);
  Backoff backoff(true);
  const Seconds started = monotonic_now();
  while (monotonic_now() - started < kGraceOfFailure) {
    const auto done = sent.poll();
    if (!done || *done) return;
    backoff.turn();
  }
}

}  // namespace quadrille::internal
