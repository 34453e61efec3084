// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A process that `quadrille launch` started, from the first line of its main() to the last: finds
// its run in the environment (launch/bootstrap.h), starts its ranks (threads of this process, or
// this process as one MPI rank), gives each its cores, device, log and records, listens for the
// launcher's stop and abort, and tells it how each rank ended. `quadrille rank` is one call of
// run_launched(train); a custom trainer's main() is one call with a body of its own.

#include <functional>

#include "quadrille/base/result.h"
#include "quadrille/comm/world.h"
#include "quadrille/train/trainer.h"

namespace quadrille {

/// One rank's work, from what it was handed to its outcome. Ranks that are threads run it at the
/// same time, so what it captures is shared between them. Everything in the options outlives it.
using LaunchedBody = std::function<Result<TrainingOutcome>(World&, const TrainerOptions&)>;

/// Runs `body` for every rank of this process and reports to the launcher; called once, from
/// main(), before other threads. Errors: kInvalid where the program was not started by `quadrille
/// launch`; kUnavailable where the ranks do not find each other (each MPI process believes itself
/// alone), with what to do; else the error of the rank that failed. The launcher has heard of it:
/// main() returns 1, and may print it.
[[nodiscard]] Result<void> run_launched(const LaunchedBody& body);

}  // namespace quadrille
