// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A folder with a small text and a small job, and the built `quadrille` to try on them.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "quadrille/base/file.h"
#include "quadrille/base/json.h"
#include "support/command.h"
#include "support/tiny_run.h"

namespace quadrille::test {

/// The program under test; the build passes its path.
inline const std::string kProgram = QUADRILLE_PROGRAM;

class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() {
    std::ofstream(path("text.txt")) << small_text(20000);
    write_job("job.json", kJob);
  }

  [[nodiscard]] std::string path(const std::string& name) const {
    return scratch_.path() + "/" + name;
  }
  void write_job(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }

  /// `quadrille <arguments>` in the scratch folder.
  [[nodiscard]] CommandResult quadrille(std::vector<std::string> arguments,
                                        const std::string& input = {}) const {
    arguments.insert(arguments.begin(), kProgram);
    return run_command(std::move(arguments), scratch_.path(), input);
  }
  [[nodiscard]] std::unique_ptr<Command> start(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), kProgram);
    return std::make_unique<Command>(std::move(arguments), scratch_.path());
  }

  /// Trains into `run` and expects success.
  void train(const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"launch", "job.json", "--run-dir", run};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = quadrille(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  }

  /// Rows in a run's metrics; 0 where there are none yet.
  [[nodiscard]] std::size_t steps_in(const std::string& run) const {
    const auto records = read_metrics(path(run) + "/metrics.jsonl");
    return records ? records->size() : 0;
  }

  static constexpr const char* kJob = R"({
  // Small enough to train in a second.
  "name": "small",
  "model": {"layers": 2, "hidden": 32, "heads": 4, "context": 32, "dropout": 0.1},
  "data": {"train": "text.txt", "validation_fraction": 0.1},
  "training": {"sequence": 32, "global_batch": 12, "steps": 20, "seed": 7, "learning_rate": 0.003,
               "warmup_steps": 5, "evaluate_every": 10, "evaluate_batches": 1},
  "checkpoint": {"every": 5}
})";

  TemporaryFolder scratch_;
};

}  // namespace quadrille::test
