// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything that is wrong with a job, gathered while it is read and checked, so that one run tells
// the user all of it. Knows for each path where its value was written.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"

namespace quadrille::internal {

struct Location {
  std::string file;  ///< Or `--set training.steps=2x`.
  int line = 0;      ///< 0 for an override.
};

class JobFindings {
 public:
  void locate(const std::string& path, Location location);
  /// A value (also a wrong one) stands there.
  [[nodiscard]] bool is_given(const std::string& path) const { return locations_.contains(path); }

  /// Reports at the path's own location, else at that of the object around it.
  void report(const std::string& path, std::string wrong, std::string right);
  /// None of them, nor an object around them, has been reported: what follows from them can be
  /// checked.
  [[nodiscard]] bool sound(std::initializer_list<std::string_view> paths) const;
  [[nodiscard]] bool empty() const { return diagnostics_.empty(); }

  /// In the order of the file; overrides come last, in their order.
  [[nodiscard]] std::vector<Diagnostic> take();

 private:
  [[nodiscard]] Location nearest_location(std::string path) const;

  std::map<std::string, Location, std::less<>> locations_;
  std::set<std::string, std::less<>> reported_;
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace quadrille::internal
