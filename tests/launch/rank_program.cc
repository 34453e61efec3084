// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// A rank process that misbehaves on demand: `rank_program MODE RANKS [ARGUMENT]`. As threads it
// speaks for all RANKS ranks, under mpirun for its own. The culprit of every failure is the last
// rank.

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "quadrille/launch/bootstrap.h"

namespace {

using quadrille::Code;
using quadrille::ControlClient;
using quadrille::Error;
using quadrille::Rank;
using quadrille::RankEnd;

struct Setting {
  std::string mode;
  int ranks = 1;
  std::string argument;
  int first = 0;  ///< The ranks of this process.
  int last = 0;
  [[nodiscard]] bool is_culprit() const { return last == ranks - 1; }
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void finish_all(ControlClient& control, const Setting& setting, RankEnd end) {
  for (int rank = setting.first; rank <= setting.last; ++rank) control.finish(Rank{rank}, end);
}

/// As a rank in a collective would: until the launcher says that it is over.
int wait_for_abort(ControlClient& control, const Setting& setting) {
  while (!control.abort_requested()) ::usleep(2'000);
  control.report({Rank{setting.first}, Error{Code::kAborted, "stopped: a peer failed", {}}, ""});
  return 1;
}

int fail_as_told(ControlClient& control, const Setting& setting) {
  if (setting.mode == "exit") {
    std::fprintf(stderr, "last words of rank %d\n", setting.last);
    std::fflush(stderr);
    ::_exit(std::atoi(setting.argument.c_str()));
  }
  if (setting.mode == "killed") {
    std::fprintf(stderr, "last words of rank %d\n", setting.last);
    std::fflush(stderr);
    ::raise(SIGKILL);
  }
  if (setting.mode == "silent") ::_exit(0);
  control.report({Rank{setting.last}, Error{Code::kExhausted, setting.argument, {}}, "step 17"});
  return 1;
}

int save_when_told(ControlClient& control, const Setting& setting) {
  while (!control.stop_requested()) ::usleep(2'000);
  ::usleep(static_cast<useconds_t>(std::atof(setting.argument.c_str()) * 1e6));
  for (int rank = setting.first; rank <= setting.last; ++rank) {
    std::ofstream(variable(quadrille::kRunDirectoryVariable) + "/saved-" + std::to_string(rank))
        << "saved";
  }
  finish_all(control, setting, RankEnd::kStopped);
  return 0;
}

int run(ControlClient& control, const Setting& setting) {
  for (int rank = setting.first; rank <= setting.last; ++rank) control.greet(Rank{rank});
  if (setting.mode == "finish") {
    std::printf("hello from rank %d\n", setting.first);
    finish_all(control, setting, RankEnd::kDone);
    return 0;
  }
  if (setting.mode == "save") return save_when_told(control, setting);
  if (setting.mode == "deaf") {  // one fails, the others never look at the channel again
    if (setting.is_culprit() && setting.ranks > 1) {
      control.report({Rank{setting.last}, Error{Code::kInternal, "broken", {}}, ""});
    }
    while (true) ::pause();
  }
  // Every rank has started before one of them fails.
  ::usleep(200'000);
  if (setting.mode == "wait" || !setting.is_culprit()) return wait_for_abort(control, setting);
  return fail_as_told(control, setting);
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 64;
  Setting setting{words[1], std::atoi(words[2]), count > 3 ? words[3] : "", 0, 0};
  const std::string mpi_rank = variable("OMPI_COMM_WORLD_RANK");
  if (mpi_rank.empty()) {
    setting.last = setting.ranks - 1;
  } else {
    setting.first = setting.last = std::atoi(mpi_rank.c_str());
  }
  const auto end_now = [] { ::_exit(1); };
  auto control = ControlClient::connect(
      {.address = variable(quadrille::kControlVariable),
       .token = variable(quadrille::kTokenVariable),
       .on_overdue = setting.mode == "deaf" ? std::function<void()>() : end_now});
  if (!control) {
    std::fprintf(stderr, "%s\n", control.error().to_text().c_str());
    return 65;
  }
  return run(**control, setting);
}
