// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One value of a job: read by its row of the table, written by it, and described for messages and
// for the reference.

#include <optional>
#include <string>

#include "config/job_fields.h"
#include "quadrille/base/json.h"

namespace quadrille::internal {

struct Problem {
  std::string wrong;
  std::string right;
};

/// Puts the value into the draft, or says what is wrong with it. Paths are taken as written.
[[nodiscard]] std::optional<Problem> read_value(const JobField& field, const Json& value,
                                                JobDraft& draft);

/// The draft's value, legal for read_value; nothing for keys that have only one value so far.
[[nodiscard]] std::optional<Json> written_value(const JobField& field, const JobDraft& draft);

/// "a whole number from 1 to 10,000 or "auto"".
[[nodiscard]] std::string expected_text(const JobField& field);

/// The value as the user wrote it, cut where it is long.
[[nodiscard]] std::string quoted_value(const Json& value);

/// "512 MiB", "2GB", "100" -> bytes.
[[nodiscard]] std::optional<Bytes> parse_bytes(std::string_view text);

}  // namespace quadrille::internal
