// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a stream runs, and who watches: an Operation names what is launched and says what it costs;
// an OperationObserver that a stream was given hears of each one when it has run. A stream without
// an observer reads no clock.

#include <array>
#include <cstdint>
#include <string_view>

#include "quadrille/base/units.h"

namespace quadrille {

/// What an operation is made of, for profiles: `matmul` of 256, 2304, 768, "NT". Its texts are
/// literals: they live as long as the program.
struct Operation {
  Operation(std::string_view what) : name(what) {}  // NOLINT: a name alone is an operation
  Operation(const char* what) : name(what) {}       // NOLINT
  Operation(std::string_view what, double floating_point_operations)
      : name(what), flops(floating_point_operations) {}

  std::string_view name;
  double flops = 0;        ///< Of the mathematics, however it is computed.
  std::int64_t bytes = 0;  ///< Moved, where that is not the whole operands; 0: it is.
  std::array<std::int64_t, 4> extents{};  ///< That tell it from others of its name; 0 ends them.
  std::string_view variant;               ///< E.g. "NT bf16".
};

/// One that has run, in monotonic_now().
struct OperationSpan {
  Operation operation;
  Bytes moved;  ///< operation.bytes, or its operands': a tensor that is updated counts twice.
  Seconds begin;
  Seconds end;
};

/// Called by the thread that ran the operation, in the order of the stream.
class OperationObserver {
 public:
  virtual ~OperationObserver() = default;
  virtual void ran(const OperationSpan& span) = 0;
};

}  // namespace quadrille
