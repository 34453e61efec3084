// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The words of the control channel: one JSON object a line, `{"type": ...}`.
//   client: hello {token, pid, host}, then greet {rank}, failure {rank, code, message, place},
//           finish {rank, end}
//   server: welcome, stop, abort {reason}
// A peer that says anything else is cut off.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/descriptor.h"
#include "quadrille/base/json.h"
#include "quadrille/base/result.h"

namespace quadrille::internal {

/// A longer line is an attack or a bug.
inline constexpr std::size_t kLineBytesMost = 64 << 10;

/// Collects what arrives into lines.
class LineReader {
 public:
  enum class State : std::uint8_t { kOpen, kEnded, kBroken };

  /// Reads what is there (a non-blocking socket: until it would block; a blocking one: one read).
  /// kBroken on an error or an overlong line.
  [[nodiscard]] State read_from(int socket);
  /// The next complete message; nothing where none is complete. `broken` is set by a line that is
  /// no JSON object.
  [[nodiscard]] std::optional<Json> next(bool& broken);

 private:
  std::string buffer_;
  std::size_t start_ = 0;  ///< Of what next() has not yet taken.
};

/// Writes one message whole. False where the peer is gone or does not read.
[[nodiscard]] bool send_message(int socket, const Json& message);

/// Finds a dead host within seconds and sends small messages at once.
void tune_socket(int socket);

/// Codes travel by name.
[[nodiscard]] Code code_from(std::string_view text);

/// "host:port". Errors: kInvalid, kUnavailable.
[[nodiscard]] Result<Descriptor> connect_to(const std::string& address);

[[nodiscard]] std::string host_name();

}  // namespace quadrille::internal
