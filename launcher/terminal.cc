// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launcher/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "launcher/commands.h"

namespace quadrille::launcher {

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void print_line(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

bool is_printed() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

void complain(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fputc('\n', stderr);
}

LiveLine::LiveLine() : is_terminal_(::isatty(STDOUT_FILENO) == 1) {}

int LiveLine::columns() const {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return size.ws_col - 1;
}

void LiveLine::show(std::string_view line) {
  if (!is_terminal_) return;
  std::fputs("\r\x1b[K", stdout);
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
  is_shown_ = true;
}

void LiveLine::end() {
  if (is_shown_) std::fputc('\n', stdout);
  std::fflush(stdout);
  is_shown_ = false;
}

int report_error(const Error& error) {
  complain("quadrille: " + error.to_text());
  switch (error.code) {
    case Code::kInvalid:
    case Code::kNotFound:
    case Code::kExhausted:
      return 2;
    default:
      return 1;
  }
}

}  // namespace quadrille::launcher
