// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// A launch that is profiled, and the benchmarks as the command line and the script run them.

#include "end_to_end/fixture.h"
#include "quadrille/base/file.h"
#include "quadrille/base/json.h"
#include "quadrille/comm/world.h"

namespace quadrille::test {
namespace {

using testing::HasSubstr;

class MeasuredPath : public CommandLineTest {
 protected:
  [[nodiscard]] static std::vector<std::string> with_tiny_model(std::vector<std::string> words) {
    for (const char* word : {"--layers", "2", "--hidden", "24", "--heads", "3", "--vocab", "300",
                             "--repetitions", "2", "--threads", "2"}) {
      words.emplace_back(word);
    }
    return words;
  }
};

TEST_F(MeasuredPath, AProfiledLaunchLeavesATableAProfileAndATraceOfEveryRank) {
  const CommandResult result =
      quadrille({"launch", "job.json", "--run-dir", "run", "--ranks", "2", "--profile"});
  ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output, HasSubstr("between operations"));
  EXPECT_THAT(result.output, HasSubstr("all_reduce"));
  EXPECT_THAT(result.output, HasSubstr("leases of the pool: 0.0"));
  const auto profile = read_json_file(path("run/profile.json"));
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->integer_or("ranks", 0), 2);
  double share = profile->number_or("between_seconds", -1) / profile->number_or("step_seconds", 1);
  for (const Json& row : profile->find("operations")->elements())
    share += row.number_or("share", 0);
  EXPECT_NEAR(share, 1, 1e-6) << "every moment of a step belongs to one row";
  const auto trace = read_json_file(path("run/trace.json"));
  ASSERT_TRUE(trace.has_value());
  std::vector<std::string> names[2];
  for (const Json& event : trace->find("traceEvents")->elements()) {
    const std::int64_t rank = event.integer_or("pid", -1);
    ASSERT_TRUE(rank == 0 || rank == 1);
    names[rank].push_back(event.string_or("name", ""));
  }
  for (const auto& of_rank : names) {
    EXPECT_THAT(of_rank, testing::IsSupersetOf({"step 3", "forward layer 1 micro-batch 0",
                                                "load_batch micro-batch 0", "all_reduce"}));
  }
}

TEST_F(MeasuredPath, AnOrdinaryLaunchLeavesNeither) {
  train("run");
  EXPECT_FALSE(path_exists(path("run/profile.json")));
  EXPECT_FALSE(path_exists(path("run/trace.json")));
}

TEST_F(MeasuredPath, TwoResultsStandBesideEachOtherAsRatios) {
  for (const char* file : {"before.json", "after.json"}) {
    const CommandResult result =
        quadrille(with_tiny_model({"bench", "gemm", "--tokens", "2x8", "--json"}));
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    std::ofstream(path(file)) << result.output;
  }
  const CommandResult compared = quadrille({"bench", "compare", "before.json", "after.json"});
  ASSERT_EQ(compared.exit_code, 0) << compared.errors;
  EXPECT_THAT(compared.output, HasSubstr("gemm: qkv forward 16x72x24 / OpenBLAS"));
  const CommandResult refused = quadrille({"bench", "compare", "before.json", "job.json"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("job.json"));
  const CommandResult absent = quadrille({"bench", "compare", "before.json", "nowhere.json"});
  EXPECT_EQ(absent.exit_code, 2);
}

TEST_F(MeasuredPath, ABenchmarkRefusesTokensThatAreNoShape) {
  const CommandResult result = quadrille(with_tiny_model({"bench", "step", "--tokens", "4by8"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("--tokens 4by8 is not SEQUENCESxTOKENS"));
}

TEST_F(MeasuredPath, RanksOfMpiStandBesideOpenMpiAndOneProcess) {
  const CommandResult comm =
      quadrille({"bench", "comm", "--ranks", "2", "--bytes", "4KiB", "--repetitions", "2"});
  ASSERT_EQ(comm.exit_code, 0) << comm.errors;
  const CommandResult step = quadrille(
      with_tiny_model({"bench", "step", "--tokens", "4x8", "--precision", "fp32", "--profile"}));
  ASSERT_EQ(step.exit_code, 0) << step.errors;
  EXPECT_THAT(step.output, HasSubstr("Step by operation"));
  if (!mpi_is_built()) GTEST_SKIP() << "this build has no MPI";
  EXPECT_THAT(comm.output, HasSubstr("all_reduce of 4.0 KiB, 2 MPI processes"));
  EXPECT_THAT(comm.output, HasSubstr("Open MPI"));
  EXPECT_THAT(step.output, HasSubstr("2 MPI ranks of 1 thread"));
}

TEST_F(MeasuredPath, TheScriptRunsAllAndWritesAPage) {
  const CommandResult result =
      run_command({"env", "QUADRILLE=" + kProgram, QUADRILLE_SOURCE "/scripts/bench.sh", "--quick",
                   "--no-build", "--output", path("results"), "--page", path("page.md")});
  ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  const auto page = read_text_file(path("page.md"));
  ASSERT_TRUE(page.has_value());
  for (const char* name : {"## step", "## gemm", "## attention", "## optimizer", "## comm",
                           "## data", "## checkpoint", "## generate", "Not claimed", "Machine:"}) {
    EXPECT_THAT(*page, HasSubstr(name));
  }
  const auto results = read_json_file(path("results/results.json"));
  ASSERT_TRUE(results.has_value());
  EXPECT_EQ(results->find("reports")->elements().size(), 8u);
}

}  // namespace
}  // namespace quadrille::test
