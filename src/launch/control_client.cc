// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <thread>

#include "launch/control_protocol.h"
#include "quadrille/base/check.h"
#include "quadrille/launch/control_channel.h"

namespace quadrille {
namespace {

using internal::Descriptor;
using internal::LineReader;

constexpr Seconds kWelcomeWait(10);
constexpr std::size_t kMessageBytesMost = 8 << 10;

/// At most kMessageBytesMost, not cut inside a UTF-8 sequence.
std::string shortened(std::string text) {
  if (text.size() <= kMessageBytesMost) return text;
  std::size_t end = kMessageBytesMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text + "...";
}

int milliseconds_until(std::optional<Seconds> deadline) {
  if (!deadline) return -1;
  const double left = (*deadline - monotonic_now()).count();
  return left <= 0 ? 0 : static_cast<int>(std::ceil(left * 1e3));
}

}  // namespace

struct ControlClient::State {
  ControlClientOptions options;
  Descriptor socket;
  Descriptor wake;  ///< Tells the thread to end.
  LineReader reader;
  std::atomic<bool> stop{false};
  std::atomic<bool> abort{false};
  std::mutex send_mutex;
  mutable std::mutex reason_mutex;
  std::string reason;
  std::thread thread;

  Result<void> introduce();
  void listen();
  bool hear(const Json& message);
  bool hear_all();
  void set_abort(std::string why);
  void send(const Json& message);
};

/// Says who we are and waits to be let in.
Result<void> ControlClient::State::introduce() {
  const Json hello = Json::object()
                         .set("type", "hello")
                         .set("token", options.token)
                         .set("pid", static_cast<std::int64_t>(::getpid()))
                         .set("host", internal::host_name());
  const Seconds deadline = monotonic_now() + kWelcomeWait;
  LineReader::State state = internal::send_message(socket.get(), hello)
                                ? LineReader::State::kOpen
                                : LineReader::State::kBroken;
  while (state == LineReader::State::kOpen && monotonic_now() < deadline) {
    pollfd waiting{socket.get(), POLLIN, 0};
    if (::poll(&waiting, 1, milliseconds_until(deadline)) != 1) continue;
    state = reader.read_from(socket.get());
    bool broken = false;
    const auto message = reader.next(broken);
    if (broken) break;
    if (message && message->string_or("type", "") == "welcome") return {};
  }
  return fail(Code::kUnavailable,
              fmt::format("the launcher at {} does not let this process in", options.address));
}

void ControlClient::State::set_abort(std::string why) {
  const std::lock_guard guard(reason_mutex);
  if (abort.load()) return;
  reason = std::move(why);
  abort.store(true);
}

/// False for what no launcher says.
bool ControlClient::State::hear(const Json& message) {
  const std::string type = message.string_or("type", "");
  if (type == "stop") {
    stop.store(true);
    return true;
  }
  if (type == "abort") {
    set_abort(message.string_or("reason", "the launcher asked for it"));
    return true;
  }
  return false;
}

/// False once the launcher has said something that none would.
bool ControlClient::State::hear_all() {
  bool broken = false;
  while (const auto message = reader.next(broken)) {
    if (!hear(*message)) return false;
  }
  return !broken;
}

/// The thread: blocks until the launcher speaks, dies, or the client ends.
void ControlClient::State::listen() {
  std::optional<Seconds> overdue;
  // What came together with the welcome has been read already.
  bool connected = hear_all();
  while (true) {
    if (!connected) set_abort("the launcher is gone");
    if (abort.load() && !overdue) overdue = monotonic_now() + options.abort_grace;
    pollfd waiting[2] = {{wake.get(), POLLIN, 0}, {connected ? socket.get() : -1, POLLIN, 0}};
    if (::poll(waiting, 2, milliseconds_until(overdue)) < 0 && errno != EINTR) return;
    if (waiting[0].revents != 0) return;
    if (overdue && monotonic_now() >= *overdue) {
      if (options.on_overdue) options.on_overdue();
      return;
    }
    if (waiting[1].revents == 0) continue;
    const bool open = reader.read_from(socket.get()) == LineReader::State::kOpen;
    connected = hear_all() && open;
  }
}

void ControlClient::State::send(const Json& message) {
  const std::lock_guard guard(send_mutex);
  // A launcher that is gone is noticed by the thread, which says so by abort.
  static_cast<void>(internal::send_message(socket.get(), message));
}

ControlClient::ControlClient(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<ControlClient>> ControlClient::connect(ControlClientOptions options) {
  auto state = std::make_unique<State>();
  QD_ASSIGN_OR_RETURN(state->socket, internal::connect_to(options.address));
  state->options = std::move(options);
  internal::tune_socket(state->socket.get());
  state->wake = Descriptor(::eventfd(0, EFD_CLOEXEC));
  if (!state->wake.is_open()) return fail(errno_error("cannot make an event", errno));
  QD_RETURN_IF_ERROR(state->introduce());
  State* raw = state.get();
  state->thread = std::thread([raw] { raw->listen(); });
  return std::unique_ptr<ControlClient>(new ControlClient(std::move(state)));
}

ControlClient::~ControlClient() {
  const std::uint64_t one = 1;
  const ssize_t written = ::write(state_->wake.get(), &one, sizeof one);
  QD_CHECK(written == static_cast<ssize_t>(sizeof one));
  state_->thread.join();
}

bool ControlClient::stop_requested() const { return state_->stop.load(std::memory_order_relaxed); }

bool ControlClient::abort_requested() const {
  return state_->abort.load(std::memory_order_relaxed);
}

std::string ControlClient::abort_reason() const {
  const std::lock_guard guard(state_->reason_mutex);
  return state_->reason;
}

void ControlClient::greet(Rank rank) {
  state_->send(Json::object().set("type", "greet").set("rank", rank.value));
}

void ControlClient::report(const RankFailure& failure) {
  state_->send(Json::object()
                   .set("type", "failure")
                   .set("rank", failure.rank.value)
                   .set("code", to_text(failure.error.code))
                   .set("message", shortened(failure.error.to_text()))
                   .set("place", shortened(failure.place)));
}

void ControlClient::finish(Rank rank, RankEnd end) {
  state_->send(Json::object()
                   .set("type", "finish")
                   .set("rank", rank.value)
                   .set("end", kRankEndText.text(end)));
}

}  // namespace quadrille
