// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launch/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

/// What the child needs between fork and exec, made before: nothing there may allocate.
struct Prepared {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  int input = -1;
  int output = -1;
  int report = -1;  ///< errno of a failed exec is written here.
  pid_t parent = 0;
};

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Our own environment, with `added` in place of what has the same name.
std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> merged;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& [other, value] : added) replaced = replaced || other == name;
    if (!replaced) merged.emplace_back(text);
  }
  for (const auto& [name, value] : added) merged.push_back(name + "=" + value);
  return merged;
}

[[noreturn]] void give_up(int report) {
  const int error = errno;
  const ssize_t written = ::write(report, &error, sizeof error);
  ::_exit(written == static_cast<ssize_t>(sizeof error) ? 127 : 126);
}

/// In the child: only calls that are safe after a fork of a process with threads.
[[noreturn]] void become(const Prepared& prepared) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != prepared.parent) ::_exit(126);  // it died before prctl
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);
  if (::dup2(prepared.input, STDIN_FILENO) < 0 || ::dup2(prepared.output, STDOUT_FILENO) < 0 ||
      ::dup2(prepared.output, STDERR_FILENO) < 0) {
    give_up(prepared.report);
  }
  ::execvpe(prepared.arguments[0], prepared.arguments.data(), prepared.environment.data());
  give_up(prepared.report);
}

/// 0 once the child runs the program, else the errno of what failed.
int error_of_start(Descriptor& report) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(report.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof error) ? error : 0;
}

}  // namespace

std::string signal_text(int signal) {
  const char* name = ::strsignal(signal);
  return fmt::format("{} ({})", signal, name == nullptr ? "unknown" : name);
}

std::string ExitStatus::to_text() const {
  if (signal != 0) return fmt::format("was killed by signal {}", signal_text(signal));
  return fmt::format("exited with code {}", code);
}

Result<ChildProcess> ChildProcess::start(const ChildCommand& command) {
  QD_CHECK(!command.arguments.empty());
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = merged_environment(command.environment);
  const Descriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Descriptor output(
      ::open(command.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!output.is_open()) return fail(errno_error("cannot open \"" + command.output + "\"", errno));
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(errno_error("cannot make a pipe", errno));
  Descriptor report_read(ends[0]);
  Descriptor report_write(ends[1]);
  const Prepared prepared{pointers_to(arguments), pointers_to(environment), input.get(),
                          output.get(),           report_write.get(),       ::getpid()};

  const pid_t pid = ::fork();
  if (pid < 0) return fail(errno_error("cannot start a process", errno));
  if (pid == 0) become(prepared);
  report_write.reset();
  if (const int error = error_of_start(report_read); error != 0) {
    ::waitpid(pid, nullptr, 0);
    return fail(errno_error("cannot start \"" + command.arguments.front() + "\"", error));
  }
  return ChildProcess(pid, Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pid_descriptor_(std::move(other.pid_descriptor_)),
      status_(other.status_) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || status_) return;
  signal_group(SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<ExitStatus> ChildProcess::ended() {
  if (status_) return status_;
  int raw = 0;
  if (::waitpid(pid_, &raw, WNOHANG) != pid_) return std::nullopt;
  ExitStatus status;
  if (WIFSIGNALED(raw)) status.signal = WTERMSIG(raw);
  if (WIFEXITED(raw)) status.code = WEXITSTATUS(raw);
  status_ = status;
  return status_;
}

void ChildProcess::signal_group(int signal) {
  if (pid_ > 1 && !status_) ::kill(-pid_, signal);
}

}  // namespace quadrille::internal
