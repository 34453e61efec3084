// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launch/random_text.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <vector>

namespace quadrille::internal {

Result<std::string> random_hex(std::size_t bytes) {
  std::vector<unsigned char> random(bytes);
  const ssize_t got = ::getrandom(random.data(), random.size(), 0);
  if (got != static_cast<ssize_t>(bytes)) {
    return fail(errno_error("cannot get random bytes", errno));
  }
  std::string text;
  for (const unsigned char byte : random) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace quadrille::internal
