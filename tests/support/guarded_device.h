// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A device whose memory the host cannot touch, to run training tests on: pages are closed but for
// the operands of the operation that runs, operations run late and on the stream's own thread, and
// an order that nothing enforces is found whether or not it went wrong this time. What it catches:
//
// - memory read or written outside an operation, or by an operation that did not declare it:
// SIGSEGV;
// - a download read before synchronize(): it is filled with 0xFF (NaN) until then;
// - an operation that conflicts with one of another stream without wait() or synchronize() between
//   them, memory released under a pending operation, operands beyond their allocation: QD_CHECK.
//
// Pages are the grain: what shares a page with an operand is open as well. One host thread drives a
// device; its streams may not wait for each other inside an operation.

#include <memory>

#include "quadrille/device/device.h"

namespace quadrille::testing {

[[nodiscard]] std::unique_ptr<Device> make_guarded_device();

}  // namespace quadrille::testing
