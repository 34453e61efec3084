// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a launch shows while it runs and when it is over.

#include <string>

#include "launcher/event_follower.h"
#include "launcher/follower.h"
#include "launcher/terminal.h"
#include "quadrille/launch/supervisor.h"
#include "quadrille/plan/plan.h"

namespace quadrille::launcher {

class LaunchView {
 public:
  LaunchView(const Plan& plan, const RunPaths& paths);

  /// The few lines before the first step.
  void begin(bool resumes) const;
  /// Shows what has happened since the last call.
  void tick();
  void stopping();
  /// The summary of a run that ended well, or why it did not.
  void end(const LaunchResult& result);
  [[nodiscard]] bool has_steps() const { return !follower_.rows().empty(); }

 private:
  void show_rows(std::size_t fresh);
  void show_warnings();
  void show_summary() const;
  void show_failure(const LaunchResult& result) const;

  const Plan& plan_;
  RunPaths paths_;
  MetricsFollower follower_;
  EventFollower events_;
  LiveLine live_;
  Seconds started_ = monotonic_now();
};

}  // namespace quadrille::launcher
