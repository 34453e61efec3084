// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "launch/scratch_folder.h"
#include "quadrille/base/file.h"
#include "quadrille/base/text.h"
#include "quadrille/launch/bootstrap.h"
#include "quadrille/launch/supervisor.h"

namespace quadrille {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

LaunchRequest mpi_request() {
  LaunchRequest request;
  request.paths = {"runs/x"};
  request.run_id = "id";
  request.ranks = 3;
  request.backend = "mpi";
  request.command = {"/opt/quadrille", "rank"};
  return request;
}

TEST(LaunchCommand, ThreadsRunTheProgramItself) {
  LaunchRequest request = mpi_request();
  request.backend = "threads";
  const auto command = launch_command(request);
  ASSERT_TRUE(command.has_value());
  EXPECT_THAT(command->arguments, ElementsAre("/opt/quadrille", "rank"));
  EXPECT_THAT(command->environment, Contains(Pair(kRunDirectoryVariable, "runs/x")));
  EXPECT_THAT(command->environment, Contains(Pair(kTokenVariable, "<secret>")));
}

TEST(LaunchCommand, MpirunGetsTheRanksEveryVariableAndRootOnlyForRoot) {
  const auto command = launch_command(mpi_request());
  ASSERT_TRUE(command.has_value());
  const std::string text = join(command->arguments, " ");
  EXPECT_EQ(command->arguments.front(), "mpirun");
  EXPECT_THAT(text, HasSubstr(" -n 3 /opt/quadrille rank"));
  EXPECT_THAT(text, HasSubstr("--oversubscribe --bind-to none"));
  EXPECT_THAT(text, HasSubstr("mpi_yield_when_idle 1"));
  for (const auto& [name, value] : command->environment) {
    EXPECT_THAT(text, HasSubstr("-x " + name)) << "ranks on other hosts need it";
  }
  const bool allowed = text.find("--allow-run-as-root") != std::string::npos;
  EXPECT_EQ(allowed, ::geteuid() == 0);
  EXPECT_THAT(text, Not(HasSubstr("keepalive")));
}

TEST(LaunchCommand, AHostFileBringsShortKeepalives) {
  const test::ScratchFolder scratch;
  LaunchRequest request = mpi_request();
  request.host_file = scratch.path() + "/hosts";
  const auto missing = launch_command(request);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  ASSERT_TRUE(write_file_atomically(request.host_file, "a slots=2\n").has_value());
  const auto command = launch_command(request);
  ASSERT_TRUE(command.has_value());
  const std::string text = join(command->arguments, " ");
  EXPECT_THAT(text, HasSubstr("--hostfile " + request.host_file));
  EXPECT_THAT(text, HasSubstr("--mca oob_tcp_keepalive_time 2"));
}

TEST(LaunchCommand, SrunStartsTheRanksOfAnAllocationUnlessAHostFileSaysOtherwise) {
  LaunchRequest request = mpi_request();
  request.slurm = SlurmAllocation{.job = "42", .tasks = std::nullopt};
  const auto command = launch_command(request);
  ASSERT_TRUE(command.has_value());
  const std::string text = join(command->arguments, " ");
  EXPECT_THAT(text, ::testing::StartsWith("srun --mpi=pmix --kill-on-bad-exit=1 "));
  EXPECT_THAT(text, HasSubstr(" --ntasks=3 /opt/quadrille rank"));
  EXPECT_THAT(command->environment, Contains(Pair("OMPI_MCA_mpi_yield_when_idle", "1")));
  const test::ScratchFolder scratch;
  request.host_file = scratch.path() + "/hosts";
  ASSERT_TRUE(write_file_atomically(request.host_file, "a slots=3\n").has_value());
  EXPECT_EQ(launch_command(request)->arguments.front(), "mpirun");
  request.host_file.clear();
  request.backend = "threads";
  EXPECT_EQ(launch_command(request)->arguments.front(), "/opt/quadrille");
}

TEST(LaunchCommand, RefusesMoreRanksThanTheAllocationHasTasks) {
  LaunchRequest request = mpi_request();
  request.slurm = SlurmAllocation{.job = "42", .tasks = 3};
  EXPECT_TRUE(launch_command(request).has_value());
  request.ranks = 4;
  const auto command = launch_command(request);
  ASSERT_FALSE(command.has_value());
  EXPECT_EQ(command.error().code, Code::kInvalid);
  EXPECT_THAT(command.error().message, HasSubstr("4 ranks do not fit the 3 tasks"));
  EXPECT_THAT(command.error().message, HasSubstr("salloc -n 4"));
}

TEST(LaunchCommand, RefusesWhatItCannotRun) {
  const auto code_of = [](const LaunchRequest& request) {
    const auto command = launch_command(request);
    return command ? std::string("accepted") : std::string(to_text(command.error().code));
  };
  LaunchRequest request = mpi_request();
  request.backend = "carrier pigeons";
  EXPECT_EQ(code_of(request), to_text(Code::kInvalid));
  request = mpi_request();
  request.command.clear();
  EXPECT_EQ(code_of(request), to_text(Code::kInvalid));
  request = mpi_request();
  request.ranks = 0;
  EXPECT_EQ(code_of(request), to_text(Code::kInvalid));
  request = mpi_request();
  request.backend = "threads";
  request.host_file = "/dev/null";
  EXPECT_EQ(code_of(request), to_text(Code::kInvalid));
}

TEST(LaunchCommand, ItsTextCanBeGivenToAShell) {
  LaunchRequest request = mpi_request();
  request.backend = "threads";
  request.command = {"/bin/my program", "it's"};
  request.environment = {{"NAME", "a b"}};
  const std::string text = to_text(launch_command(request).value());
  EXPECT_THAT(text, HasSubstr("NAME='a b' "));
  EXPECT_THAT(text, HasSubstr(shell_quoted("/bin/my program") + " " + shell_quoted("it's")));
}

}  // namespace
}  // namespace quadrille
