// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The profile of a step as a table: where its seconds went, how fast each operation computed and
// moved memory, and how near that is to what the machine can do.

#include <map>
#include <optional>
#include <span>
#include <string>

#include "quadrille/base/json.h"
#include "quadrille/observe/profile.h"

namespace quadrille {

/// What the machine does for an operation when nothing else is asked of it; 0: unknown.
struct Roof {
  double flops_per_second = 0;
  double bytes_per_second = 0;
};
/// By OperationProfile::key().
using Roofs = std::map<std::string, Roof>;

enum class Bound : std::uint8_t { kUnknown, kProducts, kMemory };
inline constexpr EnumTable<Bound, 3> kBoundText{
    {{{Bound::kUnknown, "-"}, {Bound::kProducts, "products"}, {Bound::kMemory, "memory"}}}};

/// Which roof is nearer, and the part of it that was reached: least possible time over time taken.
struct Reached {
  Bound bound = Bound::kUnknown;
  double fraction = 0;
};
[[nodiscard]] Reached reached(const OperationProfile& operation, const Roof& roof);

/// Rows by seconds; those below 0.1 % of the step together. Per step.
[[nodiscard]] std::string profile_table(const StepsProfile& profile, const Roofs& roofs);

/// profile.json: the same figures, per step, with the roofs.
[[nodiscard]] Json profile_json(const StepsProfile& profile, const Roofs& roofs);

}  // namespace quadrille
