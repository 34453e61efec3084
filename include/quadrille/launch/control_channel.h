// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How the launcher and its rank processes speak: one TCP connection per process, one JSON object a
// line. The launcher says stop (save, then end) and abort (end now); a process says which ranks it
// hosts, how each ended, and why one failed. mpirun kills its ranks a second after a signal, which
// is no time to save in; this channel gives them as long as it takes. It also tells either side
// within milliseconds that the other died.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/ids.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"

namespace quadrille {

/// How a rank's body ended without failing.
enum class RankEnd : std::uint8_t { kDone, kStopped };
inline constexpr EnumTable<RankEnd, 2> kRankEndText{
    {{{RankEnd::kDone, "done"}, {RankEnd::kStopped, "stopped"}}}};

struct RankFailure {
  Rank rank;
  Error error;        ///< Code and message travel.
  std::string place;  ///< Where, e.g. "step 17"; may be empty.
};

struct ControlClientOptions {
  std::string address;  ///< "host:port", from the server.
  std::string token;
  /// Called from the client's thread when the process still lives `abort_grace` after an abort, or
  /// after the launcher died: whoever owns the process ends it here. Empty: nothing is called.
  std::function<void()> on_overdue;
  Seconds abort_grace = Seconds(2);
};

/// A rank process's end. One small thread blocks on the socket; the questions below read atomics
/// and may be asked inside every wait, by any thread.
class ControlClient {
 public:
  /// Errors: kUnavailable where the launcher cannot be reached or refuses the token.
  [[nodiscard]] static Result<std::unique_ptr<ControlClient>> connect(ControlClientOptions options);
  ~ControlClient();  ///< A rank that has neither finished nor reported is lost from now on.

  [[nodiscard]] bool stop_requested() const;
  [[nodiscard]] bool abort_requested() const;
  /// Why abort was asked for: "rank 2 was lost", "the launcher is gone"; empty before.
  [[nodiscard]] std::string abort_reason() const;

  /// This process hosts `rank`. Call it for each rank once, before work starts. Messages to a
  /// launcher that is gone are dropped: abort_requested() says so.
  void greet(Rank rank);
  void report(const RankFailure& failure);
  void finish(Rank rank, RankEnd end);

 private:
  struct State;
  explicit ControlClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// What the launcher hears.
struct ControlEvent {
  enum class Kind : std::uint8_t {
    kGreeting,  ///< A process hosts `rank`.
    kFailure,   ///< `rank` failed with `error` at `place`.
    kFinished,  ///< `rank` ended as `end` says.
    kLost,      ///< The connection of the process that hosts `rank` broke before `rank` ended.
  };
  Kind kind = Kind::kGreeting;
  Rank rank;
  int pid = 0;  ///< Of the rank's process, on `host`.
  std::string host;
  RankEnd end = RankEnd::kDone;
  Error error;
  std::string place;
};

struct ControlServerOptions {
  /// Reachable from other hosts (a host file is used), by this host's name; else loopback only.
  bool all_interfaces = false;
};

/// The launcher's end. Never blocks; driven by whoever polls descriptor().
class ControlServer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ControlServer>> listen(
      const ControlServerOptions& options = {});
  ~ControlServer();

  [[nodiscard]] const std::string& address() const;
  /// A secret of this server; a connection without it is closed and never heard.
  [[nodiscard]] const std::string& token() const;
  /// Readable when there is something to poll().
  [[nodiscard]] int descriptor() const;
  /// Everything that has arrived, in order.
  [[nodiscard]] std::vector<ControlEvent> poll();
  /// Of the processes of this host that are connected now. The connection lives as long as the
  /// process, so none of these numbers has been given to another.
  [[nodiscard]] std::vector<int> local_processes() const;
  /// Processes connected now, of any host.
  [[nodiscard]] std::size_t connections() const;

  /// To every process, also those that connect later.
  void request_stop();
  void request_abort(std::string_view reason);

 private:
  struct State;
  explicit ControlServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
