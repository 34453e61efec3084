// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory for the values of a transformer's parameters, where nothing else owns it.

#include "quadrille/base/result.h"
#include "quadrille/memory/pool.h"
#include "quadrille/model/transformer.h"

namespace quadrille {

/// Leases all values as one piece (tagged parameter, each tensor at a cache line) and binds them;
/// the lease must outlive their use. Errors: kExhausted.
[[nodiscard]] Result<Lease> bind_values(Transformer& model, Pool& pool);

}  // namespace quadrille
