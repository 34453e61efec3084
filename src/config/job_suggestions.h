// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an unknown key was meant to be.

#include <string>
#include <string_view>

#include "config/job_values.h"

namespace quadrille::internal {

/// For the key `key` in the object at `object` (a path of job_objects()): the nearest keys of that
/// object, all of them where several are equally near, and a key elsewhere that is nearer still.
[[nodiscard]] Problem describe_unknown_key(std::string_view object, std::string_view key);

}  // namespace quadrille::internal
