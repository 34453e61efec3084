// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "support/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "quadrille/base/check.h"

namespace quadrille::test {
namespace {

std::string temporary_file() {
  std::string name = (std::filesystem::temp_directory_path() / "quadrille-out-XXXXXX").string();
  const int descriptor = ::mkstemp(name.data());
  QD_CHECK(descriptor >= 0);
  ::close(descriptor);
  return name;
}

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void pause_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

}  // namespace

Command::Command(std::vector<std::string> arguments, const std::string& folder,
                 const std::string& input)
    : output_file_(temporary_file()), error_file_(temporary_file()) {
  const std::string input_file = temporary_file();
  std::ofstream(input_file, std::ios::binary) << input;
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  pid_ = ::fork();
  QD_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    const int in = ::open(input_file.c_str(), O_RDONLY);
    const int out = ::open(output_file_.c_str(), O_WRONLY | O_TRUNC);
    const int err = ::open(error_file_.c_str(), O_WRONLY | O_TRUNC);
    ::dup2(in, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    if (!folder.empty() && ::chdir(folder.c_str()) != 0) ::_exit(126);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  // The child has its own descriptor by the time it ends; the name may go when it does.
  pause_briefly();
  input_file_ = input_file;
}

Command::~Command() {
  if (!poll_end()) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
  }
  for (const std::string& file : {output_file_, error_file_, input_file_}) {
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
  }
}

void Command::send(int signal) const { ::kill(pid_, signal); }

bool Command::poll_end() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

bool Command::wait_until(const std::function<bool()>& condition, Seconds limit) {
  const Seconds deadline = monotonic_now() + limit;
  while (!condition()) {
    if (poll_end() || monotonic_now() > deadline) return condition();
    pause_briefly();
  }
  return true;
}

std::string Command::output() const { return slurp(output_file_); }

CommandResult Command::wait(Seconds limit) {
  const Seconds deadline = monotonic_now() + limit;
  while (!poll_end() && monotonic_now() < deadline) pause_briefly();
  CommandResult result;
  if (ended_) {
    result.exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  } else {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
    ended_ = true;
  }
  result.output = slurp(output_file_);
  result.errors = slurp(error_file_);
  return result;
}

CommandResult run_command(std::vector<std::string> arguments, const std::string& folder,
                          const std::string& input) {
  return Command(std::move(arguments), folder, input).wait();
}

std::vector<int> processes_with(const std::string& text) {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string command = slurp(entry.path() / "cmdline");  // empty for a zombie
    if (command.find(text) != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

}  // namespace quadrille::test
