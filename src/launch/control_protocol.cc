// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launch/control_protocol.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <memory>

namespace quadrille::internal {
namespace {

constexpr int kConnectMilliseconds = 10'000;

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

/// 0, or why not.
int connect_within(int socket, const addrinfo& target, int milliseconds) {
  if (::connect(socket, target.ai_addr, target.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waiting{socket, POLLOUT, 0};
  if (::poll(&waiting, 1, milliseconds) != 1) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace

LineReader::State LineReader::read_from(int socket) {
  std::array<char, 4096> piece;
  while (true) {
    const ssize_t got = ::recv(socket, piece.data(), piece.size(), 0);
    if (got == 0) return State::kEnded;
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? State::kOpen : State::kBroken;
    }
    buffer_.append(piece.data(), static_cast<std::size_t>(got));
    const std::size_t newline = buffer_.rfind('\n');
    const std::size_t unfinished =
        newline == std::string::npos ? buffer_.size() : buffer_.size() - newline - 1;
    if (unfinished > kLineBytesMost || buffer_.size() > 16 * kLineBytesMost) return State::kBroken;
    if (static_cast<std::size_t>(got) < piece.size()) return State::kOpen;
  }
}

std::optional<Json> LineReader::next(bool& broken) {
  const std::size_t end = buffer_.find('\n', start_);
  if (end == std::string::npos) {
    buffer_.erase(0, start_);
    start_ = 0;
    return std::nullopt;
  }
  const std::string line = buffer_.substr(start_, end - start_);
  start_ = end + 1;
  auto message = parse_json(line, {.file = "control channel", .comments = false, .depth_most = 4});
  if (!message || !message->is_object()) {
    broken = true;
    return std::nullopt;
  }
  return std::move(*message);
}

bool send_message(int socket, const Json& message) {
  const std::string line = write_json(message) + "\n";
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t count = ::send(socket, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

void tune_socket(int socket) {
  const auto set = [socket](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 6000);
}

Code code_from(std::string_view text) {
  for (int code = 0; code <= static_cast<int>(Code::kInternal); ++code) {
    if (to_text(static_cast<Code>(code)) == text) return static_cast<Code>(code);
  }
  return Code::kInternal;
}

Result<Descriptor> connect_to(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return fail(Code::kInvalid, fmt::format("\"{}\" is no host:port", address));
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* raw = nullptr;
  const int failed = ::getaddrinfo(address.substr(0, colon).c_str(),
                                   address.substr(colon + 1).c_str(), &hints, &raw);
  const std::unique_ptr<addrinfo, FreeAddresses> list(raw);
  if (failed != 0) {
    return fail(Code::kUnavailable, fmt::format("cannot find the launcher's host in \"{}\": {}",
                                                address, ::gai_strerror(failed)));
  }
  int error = EADDRNOTAVAIL;
  for (const addrinfo* target = list.get(); target != nullptr; target = target->ai_next) {
    Descriptor socket(::socket(target->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open()) continue;
    error = connect_within(socket.get(), *target, kConnectMilliseconds);
    if (error == 0) return socket;
  }
  Error reason = errno_error(fmt::format("cannot reach the launcher at {}", address), error);
  reason.code = Code::kUnavailable;
  return fail(std::move(reason));
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace quadrille::internal
