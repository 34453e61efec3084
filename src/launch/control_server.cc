// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>

#include "launch/control_protocol.h"
#include "launch/random_text.h"
#include "quadrille/launch/control_channel.h"

namespace quadrille {
namespace {

using internal::Descriptor;
using internal::LineReader;

constexpr Seconds kHelloWait(5);
constexpr std::size_t kStrangersMost = 64;
constexpr std::int64_t kRanksMost = 1 << 20;

/// One process at the other end.
struct Peer {
  Descriptor socket;
  LineReader reader;
  Seconds connected;
  bool welcome = false;  ///< It knew the token.
  int pid = 0;
  std::string host;
  std::map<Rank, bool> ended;  ///< The ranks it greeted for.
};

/// Takes as long for a wrong token as for a right one.
bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(a[i]) ^ static_cast<unsigned>(b[i]);
  }
  return difference == 0;
}

}  // namespace

struct ControlServer::State {
  Descriptor epoll;
  Descriptor listener;
  std::string address;
  std::string token;
  std::string own_host = internal::host_name();
  std::map<int, Peer> peers;  ///< By socket number.
  bool stop = false;
  std::optional<std::string> abort;
  std::vector<ControlEvent> events;

  Result<void> open(bool all_interfaces);
  void accept_all();
  void hear_from(Peer& peer);
  bool hear(Peer& peer, const Json& message);
  bool welcome(Peer& peer, const Json& hello);
  bool hear_rank(Peer& peer, const Json& message, const std::string& type);
  void drop(int socket);
  void drop_silent_strangers();
  [[nodiscard]] ControlEvent event(const Peer& peer, ControlEvent::Kind kind, Rank rank) const;
  void say(Peer& peer, const Json& message) const;
  void say_to_all(const Json& message);
  [[nodiscard]] Json abort_message() const;
};

Result<void> ControlServer::State::open(bool all_interfaces) {
  QD_ASSIGN_OR_RETURN(token, internal::random_hex(16));
  listener = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  epoll = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!listener.is_open() || !epoll.is_open()) {
    return fail(errno_error("cannot open the control channel", errno));
  }
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(all_interfaces ? INADDR_ANY : INADDR_LOOPBACK);
  socklen_t length = sizeof place;
  epoll_event readable{};
  readable.events = EPOLLIN;
  readable.data.fd = listener.get();
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&place), length) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&place), &length) != 0 ||
      ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, listener.get(), &readable) != 0) {
    return fail(errno_error("cannot open the control channel", errno));
  }
  address = fmt::format("{}:{}", all_interfaces ? own_host : "127.0.0.1", ntohs(place.sin_port));
  return {};
}

ControlEvent ControlServer::State::event(const Peer& peer, ControlEvent::Kind kind,
                                         Rank rank) const {
  ControlEvent made;
  made.kind = kind;
  made.rank = rank;
  made.pid = peer.pid;
  made.host = peer.host;
  return made;
}

void ControlServer::State::accept_all() {
  auto strangers = static_cast<std::size_t>(std::count_if(
      peers.begin(), peers.end(), [](const auto& entry) { return !entry.second.welcome; }));
  while (true) {
    Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) return;
    if (strangers == kStrangersMost) continue;  // closes it
    ++strangers;
    internal::tune_socket(socket.get());
    const int number = socket.get();
    epoll_event readable{};
    readable.events = EPOLLIN;
    readable.data.fd = number;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, number, &readable) != 0) continue;
    Peer& peer = peers[number];
    peer.socket = std::move(socket);
    peer.connected = monotonic_now();
  }
}

void ControlServer::State::say(Peer& peer, const Json& message) const {
  // A peer that is gone or stuck is found by its connection or by the supervisor's deadlines.
  static_cast<void>(internal::send_message(peer.socket.get(), message));
}

void ControlServer::State::say_to_all(const Json& message) {
  for (auto& [socket, peer] : peers) {
    if (peer.welcome) say(peer, message);
  }
}

Json ControlServer::State::abort_message() const {
  return Json::object().set("type", "abort").set("reason", *abort);
}

bool ControlServer::State::welcome(Peer& peer, const Json& hello) {
  if (hello.string_or("type", "") != "hello") return false;
  if (!same_secret(hello.string_or("token", ""), token)) return false;
  peer.welcome = true;
  peer.pid = static_cast<int>(std::clamp<std::int64_t>(hello.integer_or("pid", 0), 0, 1 << 30));
  peer.host = hello.string_or("host", "");
  say(peer, Json::object().set("type", "welcome"));
  if (stop) say(peer, Json::object().set("type", "stop"));
  if (abort) say(peer, abort_message());
  return true;
}

bool ControlServer::State::hear_rank(Peer& peer, const Json& message, const std::string& type) {
  const std::int64_t number = message.integer_or("rank", -1);
  if (number < 0 || number >= kRanksMost) return false;
  const Rank rank{static_cast<int>(number)};
  const auto known = peer.ended.find(rank);
  if (type == "greet") {
    if (known != peer.ended.end()) return false;
    peer.ended[rank] = false;
    events.push_back(event(peer, ControlEvent::Kind::kGreeting, rank));
    return true;
  }
  if (known == peer.ended.end()) return false;
  if (type == "failure") {
    known->second = true;
    ControlEvent failure = event(peer, ControlEvent::Kind::kFailure, rank);
    failure.error.code = internal::code_from(message.string_or("code", ""));
    failure.error.message = message.string_or("message", "");
    failure.place = message.string_or("place", "");
    events.push_back(std::move(failure));
    return true;
  }
  const auto end = kRankEndText.value(message.string_or("end", ""));
  if (type != "finish" || !end) return false;
  known->second = true;
  ControlEvent finished = event(peer, ControlEvent::Kind::kFinished, rank);
  finished.end = *end;
  events.push_back(std::move(finished));
  return true;
}

bool ControlServer::State::hear(Peer& peer, const Json& message) {
  if (!peer.welcome) return welcome(peer, message);
  return hear_rank(peer, message, message.string_or("type", ""));
}

void ControlServer::State::hear_from(Peer& peer) {
  const LineReader::State state = peer.reader.read_from(peer.socket.get());
  bool broken = false;
  while (!broken) {
    const auto message = peer.reader.next(broken);
    if (!message) break;
    broken = !hear(peer, *message);
  }
  if (broken || state != LineReader::State::kOpen) drop(peer.socket.get());
}

void ControlServer::State::drop(int socket) {
  const auto found = peers.find(socket);
  for (const auto& [rank, ended] : found->second.ended) {
    if (!ended) events.push_back(event(found->second, ControlEvent::Kind::kLost, rank));
  }
  peers.erase(found);  // closing removes it from epoll
}

void ControlServer::State::drop_silent_strangers() {
  const Seconds earliest = monotonic_now() - kHelloWait;
  for (auto next = peers.begin(); next != peers.end();) {
    const auto peer = next++;
    if (!peer->second.welcome && peer->second.connected < earliest) drop(peer->first);
  }
}

ControlServer::ControlServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
ControlServer::~ControlServer() = default;

Result<std::unique_ptr<ControlServer>> ControlServer::listen(const ControlServerOptions& options) {
  auto state = std::make_unique<State>();
  QD_RETURN_IF_ERROR(state->open(options.all_interfaces));
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(state)));
}

const std::string& ControlServer::address() const { return state_->address; }
const std::string& ControlServer::token() const { return state_->token; }
int ControlServer::descriptor() const { return state_->epoll.get(); }

std::vector<ControlEvent> ControlServer::poll() {
  epoll_event ready[64];
  int count = 0;
  while ((count = ::epoll_wait(state_->epoll.get(), ready, 64, 0)) > 0) {
    for (int i = 0; i < count; ++i) {
      if (ready[i].data.fd == state_->listener.get()) {
        state_->accept_all();
        continue;
      }
      const auto peer = state_->peers.find(ready[i].data.fd);
      if (peer != state_->peers.end()) state_->hear_from(peer->second);
    }
    if (count < 64) break;
  }
  state_->drop_silent_strangers();
  return std::exchange(state_->events, {});
}

std::vector<int> ControlServer::local_processes() const {
  std::vector<int> pids;
  for (const auto& [socket, peer] : state_->peers) {
    if (peer.welcome && peer.host == state_->own_host && peer.pid > 1) pids.push_back(peer.pid);
  }
  return pids;
}

std::size_t ControlServer::connections() const {
  return static_cast<std::size_t>(
      std::count_if(state_->peers.begin(), state_->peers.end(),
                    [](const auto& entry) { return entry.second.welcome; }));
}

void ControlServer::request_stop() {
  if (state_->stop) return;
  state_->stop = true;
  state_->say_to_all(Json::object().set("type", "stop"));
}

void ControlServer::request_abort(std::string_view reason) {
  if (state_->abort) return;
  state_->abort = std::string(reason);
  state_->say_to_all(state_->abort_message());
}

}  // namespace quadrille
