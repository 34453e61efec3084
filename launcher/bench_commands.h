// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// quadrille bench: the command's options and the function behind each benchmark.

#include <functional>

namespace CLI {
class App;
}

namespace quadrille::launcher {

/// Adds `bench` with its benchmarks; the one that is chosen becomes the action. `app` outlives the
/// action.
void add_bench(CLI::App& app, std::function<int()>& action);

/// `compare` and `show`, which read what the benchmarks printed as JSON.
void add_bench_results(CLI::App& group, std::function<int()>& action);
/// The hidden command by which benchmarks start MPI ranks.
void add_bench_rank(CLI::App& app, std::function<int()>& action);

}  // namespace quadrille::launcher
