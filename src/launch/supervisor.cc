// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/launch/supervisor.h"

#include <fmt/format.h>
#include <poll.h>

#include <csignal>
#include <memory>

#include "launch/child_process.h"
#include "launch/mpi_leftovers.h"
#include "launch/output_tail.h"
#include "launch/rank_book.h"
#include "quadrille/base/check.h"
#include "quadrille/base/file.h"
#include "quadrille/launch/bootstrap.h"
#include "quadrille/launch/control_channel.h"
#include "quadrille/observe/flight_recorder.h"

namespace quadrille {
namespace {

using internal::ChildProcess;
using internal::ExitStatus;
using internal::FirstFailure;
using internal::RankBook;

constexpr int kTickMilliseconds = 50;
constexpr int kSavedExitCode = 75;
constexpr int kHostLostExitCode = 205;  // mpirun's, for a remote daemon that is gone
// From the abort: ranks end by themselves; then those of this host are killed, which makes mpirun
// end the rest and itself (it is not to be disturbed in that: it takes a second); then the child
// is told to end, then killed. All within 3 seconds.
struct AbortTimes {
  Seconds kill_ranks;
  Seconds terminate_child;
  Seconds kill_child;
};
constexpr AbortTimes kAfterFailure{Seconds(1.2), Seconds(2.2), Seconds(2.8)};
constexpr AbortTimes kAfterSecondSignal{Seconds(0.2), Seconds(1.4), Seconds(2.0)};
/// For the processes after their ranks have finished, and for ranks after mpirun has ended.
constexpr Seconds kLingerMost(10);
constexpr Seconds kOrphanGrace(0.5);
constexpr Seconds kOrphanMost(3);

/// One run from start to end. Each round of step() hears, decides and enforces deadlines.
class Supervision {
 public:
  Supervision(const LaunchRequest& request, const SupervisorHooks& hooks)
      : request_(request), hooks_(hooks), book_(request.ranks) {}

  Result<void> start();
  /// False once the child has ended.
  bool step();
  void wait_for_orphans();
  [[nodiscard]] LaunchResult result() const;

 private:
  void wait_for_something(int milliseconds) const;
  void hear_ranks();
  void hear_signals();
  void note_child_end();
  void begin_abort(const std::string& reason);
  void enforce_abort();
  void enforce_other_deadlines();
  void kill_local_ranks() const;
  [[nodiscard]] FirstFailure failure_of_exit(const ExitStatus& status) const;
  [[nodiscard]] std::vector<std::string> tail() const;
  void tick() const {
    if (hooks_.on_tick) hooks_.on_tick();
  }

  const LaunchRequest& request_;
  const SupervisorHooks& hooks_;
  RankBook book_;
  std::unique_ptr<ControlServer> server_;
  std::optional<ChildProcess> child_;
  std::int64_t output_start_ = 0;
  Seconds started_;
  std::optional<ExitStatus> exit_;
  std::optional<Seconds> stop_since_;
  std::optional<Seconds> abort_since_;
  std::optional<Seconds> finished_since_;
  bool all_ranks_told_ = false;
  bool by_signal_ = false;      ///< The second signal ended the run.
  bool was_signalled_ = false;  ///< We sent signals: the child's status says nothing of its own.
};

Result<void> Supervision::start() {
  QD_ASSIGN_OR_RETURN(LaunchCommand command, launch_command(request_));
  QD_ASSIGN_OR_RETURN(server_,
                      ControlServer::listen(
                          {.all_interfaces = !request_.host_file.empty() || uses_srun(request_)}));
  for (auto& [name, value] : command.environment) {
    if (name == kControlVariable) value = server_->address();
    if (name == kTokenVariable) value = server_->token();
  }
  QD_RETURN_IF_ERROR(make_folders(request_.paths.logs()));
  output_start_ = internal::file_bytes(request_.paths.output());
  QD_ASSIGN_OR_RETURN(ChildProcess child,
                      ChildProcess::start({.arguments = std::move(command.arguments),
                                           .environment = std::move(command.environment),
                                           .output = request_.paths.output()}));
  child_.emplace(std::move(child));
  started_ = monotonic_now();
  return {};
}

void Supervision::wait_for_something(int milliseconds) const {
  const int signals = hooks_.signals == nullptr ? -1 : hooks_.signals->descriptor();
  const int child = exit_ ? -1 : child_->descriptor();
  pollfd waiting[3] = {
      {server_->descriptor(), POLLIN, 0}, {signals, POLLIN, 0}, {child, POLLIN, 0}};
  // An interrupted wait is a short one.
  static_cast<void>(::poll(waiting, 3, milliseconds));
}

void Supervision::hear_ranks() {
  for (const ControlEvent& event : server_->poll()) {
    if (book_.add(event)) begin_abort(book_.failure()->error.message);
  }
  if (!all_ranks_told_ && book_.all_greeted()) {
    all_ranks_told_ = true;
    if (hooks_.on_all_ranks) hooks_.on_all_ranks();
  }
}

void Supervision::hear_signals() {
  if (hooks_.signals == nullptr) return;
  for (std::size_t count = hooks_.signals->read().size(); count > 0; --count) {
    if (!stop_since_) {
      stop_since_ = monotonic_now();
      server_->request_stop();
      if (hooks_.on_stop) hooks_.on_stop();
      continue;
    }
    by_signal_ = true;
    begin_abort("a second signal ended the run");
  }
}

void Supervision::begin_abort(const std::string& reason) {
  if (!abort_since_) abort_since_ = monotonic_now();
  server_->request_abort(reason);
}

void Supervision::kill_local_ranks() const {
  for (const int pid : server_->local_processes()) ::kill(pid, SIGKILL);
}

void Supervision::enforce_abort() {
  if (!abort_since_) return;
  const AbortTimes& times = by_signal_ ? kAfterSecondSignal : kAfterFailure;
  const Seconds since = monotonic_now() - *abort_since_;
  if (since >= times.kill_ranks) kill_local_ranks();
  if (since >= times.terminate_child && !was_signalled_) {
    was_signalled_ = true;
    child_->signal_group(SIGTERM);
  }
  if (since >= times.kill_child) child_->signal_group(SIGKILL);
}

void Supervision::enforce_other_deadlines() {
  const Seconds now = monotonic_now();
  const bool waits_for_start =
      request_.start_timeout > Seconds(0) && !book_.all_greeted() && !abort_since_ && !stop_since_;
  if (waits_for_start && now - started_ >= request_.start_timeout) {
    FirstFailure failure;
    failure.error = {
        Code::kTimeout,
        fmt::format("{} did not start within {}", book_.absent(), to_text(request_.start_timeout)),
        {}};
    book_.add_failure(std::move(failure));
    begin_abort("not every rank has started");
  }
  if (stop_since_ && request_.stop_grace && !abort_since_ &&
      now - *stop_since_ >= *request_.stop_grace) {
    FirstFailure failure;
    failure.error = {Code::kTimeout,
                     fmt::format("saving and stopping took longer than its grace of {}",
                                 to_text(*request_.stop_grace)),
                     {}};
    book_.add_failure(std::move(failure));
    begin_abort("the stop took longer than its grace");
  }
  if (book_.all_ended() && !finished_since_) finished_since_ = now;
  if (finished_since_ && !abort_since_ && now - *finished_since_ >= kLingerMost) {
    begin_abort("all ranks have ended");
  }
}

void Supervision::note_child_end() {
  if (exit_) return;
  exit_ = child_->ended();
  if (!exit_) return;
  hear_ranks();  // its last words may still be on the way to us
  const bool is_clean = exit_->signal == 0 && (exit_->code == 0 || exit_->code == kSavedExitCode);
  if (book_.failure() || by_signal_ || (book_.all_ended() && was_signalled_)) return;
  if (!is_clean) {
    book_.add_failure(failure_of_exit(*exit_));
  } else if (book_.any_greeted() && !book_.all_ended()) {
    FirstFailure failure;
    failure.lost = true;
    failure.error = {
        Code::kUnavailable, "the run's processes ended before all ranks had finished", {}};
    book_.add_failure(std::move(failure));
  }
  if (book_.failure()) begin_abort(book_.failure()->error.message);
}

FirstFailure Supervision::failure_of_exit(const ExitStatus& status) const {
  FirstFailure failure;
  const bool is_mpi = request_.backend == "mpi";
  const std::string who = uses_srun(request_) ? "srun" : (is_mpi ? "mpirun" : "the rank process");
  failure.error = {Code::kInternal, fmt::format("{} {}", who, status.to_text()), {}};
  if (is_mpi && status.signal == 0 && status.code == kHostLostExitCode) {
    failure.error.message = "mpirun lost contact with a host";
    failure.lost = true;
  } else if (uses_srun(request_) && status.signal == 0 && status.code > 128) {
    // srun tells how it ended the others, not how the first one ended.
    failure.error.message = fmt::format("a rank was lost: srun {}", status.to_text());
    failure.lost = true;
  } else if (is_mpi && status.signal == 0 && status.code > 128) {
    // mpirun passes on how its first failing rank ended, as a shell would.
    failure.error.message =
        fmt::format("a rank was killed by signal {}", internal::signal_text(status.code - 128));
    failure.lost = true;
  }
  failure.lost = failure.lost || status.signal != 0;
  if (failure.lost) failure.error.code = Code::kUnavailable;
  if (request_.ranks == 1) failure.rank = Rank{0};
  return failure;
}

bool Supervision::step() {
  wait_for_something(kTickMilliseconds);
  hear_ranks();
  hear_signals();
  note_child_end();
  enforce_other_deadlines();
  enforce_abort();
  tick();
  return !exit_;
}

/// mpirun's ranks outlive it when it is killed; they end by themselves or are ended here.
void Supervision::wait_for_orphans() {
  const Seconds start = monotonic_now();
  while (server_->connections() > 0 && monotonic_now() - start < kOrphanMost) {
    begin_abort("the launch has ended");
    wait_for_something(kTickMilliseconds);
    hear_ranks();
    hear_signals();
    if (monotonic_now() - start >= kOrphanGrace) kill_local_ranks();
    tick();
  }
}

/// The failing rank's own words on the terminal, else in its log, else what anyone said.
std::vector<std::string> Supervision::tail() const {
  const std::optional<Rank> rank = book_.failure() ? book_.failure()->rank : std::nullopt;
  internal::TailQuestion question{.path = request_.paths.output(),
                                  .from_byte = output_start_,
                                  .rank = rank,
                                  .only_tagged = request_.backend == "mpi",
                                  .by_srun = uses_srun(request_),
                                  .most = request_.last_lines};
  auto lines = internal::last_lines(question);
  if (lines.empty() && rank) {
    lines =
        internal::last_lines({.path = request_.paths.rank_log(*rank), .most = request_.last_lines});
  }
  if (!lines.empty()) return lines;
  question.rank.reset();
  question.only_tagged = false;
  return internal::last_lines(question);
}

/// What the exit status adds to "rank 1 was lost".
void explain_loss(LaunchResult& result, const std::optional<ExitStatus>& exit, bool is_mpi) {
  if (!exit) return;
  const bool is_signal_code = is_mpi && exit->signal == 0 && exit->code > 128;
  if (exit->signal != 0) {
    result.error->message += ": it " + exit->to_text();
  } else if (is_signal_code && exit->code != kHostLostExitCode) {
    result.error->message +=
        fmt::format(": it was killed by signal {}", internal::signal_text(exit->code - 128));
  } else if (exit->code > (is_mpi ? 1 : 0) && !is_signal_code) {
    // It ended by its own decision, without a word on the channel. mpirun's 1 may stem from a rank
    // that only followed.
    result.outcome = LaunchOutcome::kFailed;
    result.error->code = Code::kInternal;
    result.error->message += ": it " + exit->to_text();
  }
}

LaunchResult Supervision::result() const {
  LaunchResult result;
  if (by_signal_) {
    result.outcome = LaunchOutcome::kAborted;
    return result;
  }
  if (!book_.failure()) {
    const bool saved = book_.any_stopped() || (exit_ && exit_->code == kSavedExitCode);
    result.outcome = saved ? LaunchOutcome::kStopped : LaunchOutcome::kDone;
    return result;
  }
  const FirstFailure& failure = *book_.failure();
  result.outcome = failure.lost ? LaunchOutcome::kLost : LaunchOutcome::kFailed;
  result.culprit = failure.rank;
  result.error = failure.error;
  result.place = failure.place;
  result.last_lines = tail();
  const bool from_channel = failure.lost && failure.rank && book_.entry(*failure.rank).greeted;
  if (!from_channel) return result;
  if (book_.shares_one_process()) {
    result.culprit.reset();
    result.error->message = fmt::format("the process of all {} ranks (pid {}) was lost",
                                        book_.size(), book_.entry(*failure.rank).pid);
  }
  if (!was_signalled_ && !uses_srun(request_))
    explain_loss(result, exit_, request_.backend == "mpi");
  return result;
}

}  // namespace

int exit_code(const LaunchResult& result) {
  switch (result.outcome) {
    case LaunchOutcome::kDone:
      return 0;
    case LaunchOutcome::kStopped:
      return kSavedExitCode;
    case LaunchOutcome::kLost:
      return 3;
    case LaunchOutcome::kAborted:
      return 130;
    case LaunchOutcome::kFailed:
      break;
  }
  const bool is_request = result.error && (result.error->code == Code::kInvalid ||
                                           result.error->code == Code::kNotFound);
  return is_request ? 2 : 1;
}

Result<LaunchResult> supervise(const LaunchRequest& request, const SupervisorHooks& hooks) {
  // A request that cannot be started leaves no trace.
  QD_RETURN_IF_ERROR(launch_command(request));
  static_cast<void>(remove_stale_shared_memory());
  if (request.backend == "mpi") static_cast<void>(internal::remove_mpi_leftovers());
  QD_ASSIGN_OR_RETURN(FlightTable table, FlightTable::create(request.run_id, request.ranks));
  Supervision supervision(request, hooks);
  const auto started = supervision.start();
  if (started) {
    while (supervision.step()) {
    }
    supervision.wait_for_orphans();
  }
  table.remove();
  // What killed ranks could not remove themselves.
  static_cast<void>(remove_stale_shared_memory());
  QD_RETURN_IF_ERROR(started);
  if (hooks.on_tick) hooks.on_tick();
  return supervision.result();
}

}  // namespace quadrille
