// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ids that do not convert into each other.

#include <compare>

namespace quadrille {

/// A rank's number in a world or in a group, from 0.
struct Rank {
  int value = 0;
  friend constexpr auto operator<=>(Rank, Rank) = default;
};

}  // namespace quadrille
