// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The reference of all keys of a job, as it stands in docs/job-reference.md: written from the
// reader's own table of fields, so that it cannot say anything else than the reader does.

#include <string>

namespace quadrille {

/// Markdown: a table for each object with every key, its type, unit, default and meaning.
[[nodiscard]] std::string job_reference_markdown();

}  // namespace quadrille
