// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille verify

#include <fmt/format.h>
#include <stdlib.h>  // mkdtemp

#include <cerrno>
#include <filesystem>
#include <utility>

#include "launcher/commands.h"
#include "launcher/job.h"
#include "launcher/terminal.h"
#include "quadrille/train/verify_layouts.h"

namespace quadrille::launcher {
namespace {

/// Removed at the end.
class ScratchFolder {
 public:
  static Result<ScratchFolder> create() {
    std::string name =
        (std::filesystem::temp_directory_path() / "quadrille-verify-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      return fail(errno_error("cannot make a folder for the runs", errno));
    }
    return ScratchFolder(std::move(name));
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// Each rank is a thread here.
constexpr std::int64_t kRanksMost = 64;

Result<Layout> layout_to_try(const std::string& text) {
  QD_ASSIGN_OR_RETURN(Layout layout, parse_layout(text));
  const std::int64_t ranks = layout.parallel.data * layout.parallel.tensor;
  if (ranks <= kRanksMost) return layout;
  return fail(Code::kInvalid, fmt::format("--layout {}: {} ranks; expected at most {}, which are "
                                          "threads of this process",
                                          text, ranks, kRanksMost));
}

Result<VerifyOutcome> run_verify(const VerifyCommandOptions& options) {
  if (options.layouts.size() != 2) {
    return fail(Code::kInvalid, fmt::format("{} layouts are given; expected two: --layout A "
                                            "--layout B",
                                            options.layouts.size()));
  }
  QD_ASSIGN_OR_RETURN(const Layout a, layout_to_try(options.layouts[0]));
  QD_ASSIGN_OR_RETURN(const Layout b, layout_to_try(options.layouts[1]));
  QD_ASSIGN_OR_RETURN(const JobSpec job, read_job_of(options.job));
  QD_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::create());
  return verify_layouts(job, {.a = a, .b = b, .steps = options.steps, .folder = scratch.path()});
}

}  // namespace

int verify_command(const VerifyCommandOptions& options) {
  const auto outcome = run_verify(options);
  if (!outcome) return report_error(outcome.error());
  print_line(outcome->model);
  if (outcome->difference) {
    print_line(fmt::format("differ: {}", *outcome->difference));
    return 1;
  }
  print_line(fmt::format("equal within rounding over {} steps: {} and {}", options.steps,
                         options.layouts[0], options.layouts[1]));
  return 0;
}

}  // namespace quadrille::launcher
