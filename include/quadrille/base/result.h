// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a failure travels: as a value. An exception that unwinds past a collective leaves the peers
// of this rank waiting for ever; a value can be carried to the step boundary, where World::agree()
// makes one rank's error a decision of all. Three kinds, three answers: the world failed and the
// user asked wrongly are both a `Result` (the latter with every Diagnostic found); a broken
// invariant of ours is QD_CHECK (check.h).

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

namespace quadrille {

/// Few, and each asks for another action of the caller.
enum class Code : std::uint8_t {
  kInvalid,      ///< The request is wrong: job, flags, arguments. Exit code 2.
  kNotFound,     ///< A named file, checkpoint, device does not exist.
  kExhausted,    ///< Memory, disk or another budget does not suffice.
  kUnavailable,  ///< A peer, link or service is lost.
  kTimeout,      ///< A deadline passed; the message names rank, operation and place.
  kCorrupt,      ///< Data exists but fails its checks.
  kAborted,      ///< Stopped on request (signal, another rank's failure).
  kInternal,     ///< The system or a library failed in a way we have no answer to.
};

/// "invalid", "not found", ...
[[nodiscard]] std::string_view to_text(Code code);

/// One thing that is wrong with what the user wrote.
struct Diagnostic {
  std::string file;   ///< As the user named it; "--set" for an override.
  int line = 0;       ///< From 1; 0 where there is none.
  std::string path;   ///< JSON path such as `training.steps`; empty for the whole file.
  std::string wrong;  ///< What was found, e.g. `"2x" is not a number`.
  std::string right;  ///< What would be right, e.g. `a whole number from 1 to 2^31`.

  /// `job.json:12: training.steps: "2x" is not a number; expected a whole number from 1 to 2^31`
  [[nodiscard]] std::string to_text() const;
};

struct Error {
  Code code = Code::kInternal;
  std::string message;                  ///< One sentence without a trailing full stop.
  std::vector<Diagnostic> diagnostics;  ///< All that was found, in file order.

  /// The message, then one diagnostic a line.
  [[nodiscard]] std::string to_text() const;
};

template <class T>
using Result = tl::expected<T, Error>;

/// `return fail(Code::kNotFound, "...");` from a function that returns any Result.
[[nodiscard]] inline tl::unexpected<Error> fail(Code code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message), {}});
}
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

/// The same error, said with what was being done: "<doing>: <message>".
[[nodiscard]] Error with_context(Error error, std::string_view doing);

/// For the errno of a call that has just failed: `errno_error("cannot write \"x\"", errno)` reads
/// `cannot write "x": No space left on device`. ENOSPC, EDQUOT and ENOMEM are kExhausted, ENOENT is
/// kNotFound, others kInternal.
[[nodiscard]] Error errno_error(std::string_view doing, int error_number);

}  // namespace quadrille

#define QD_CONCAT_INNER(a, b) a##b
#define QD_CONCAT(a, b) QD_CONCAT_INNER(a, b)

/// Returns the error of `expr` (a Result) from the current function, if it has one.
#define QD_RETURN_IF_ERROR(expr)                                                 \
  do {                                                                           \
    if (auto&& qd_result = (expr); !qd_result) {                                 \
      return ::tl::unexpected<::quadrille::Error>(std::move(qd_result).error()); \
    }                                                                            \
  } while (false)

/// `QD_ASSIGN_OR_RETURN(auto pool, Pool::create(options));`
#define QD_ASSIGN_OR_RETURN(lhs, expr) \
  QD_ASSIGN_OR_RETURN_INNER(QD_CONCAT(qd_result_, __COUNTER__), lhs, expr)
#define QD_ASSIGN_OR_RETURN_INNER(result, lhs, expr)                        \
  auto result = (expr);                                                     \
  if (!result) {                                                            \
    return ::tl::unexpected<::quadrille::Error>(std::move(result).error()); \
  }                                                                         \
  lhs = std::move(result).value()
