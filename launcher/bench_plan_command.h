// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// quadrille bench plan: how wrong the planner's cost models are on published runs.

#include <functional>

namespace CLI {
class App;
}

namespace quadrille::launcher {

/// Adds `plan` to the group `bench`; `group` outlives the action.
void add_bench_plan(CLI::App& group, std::function<int()>& action);

}  // namespace quadrille::launcher
