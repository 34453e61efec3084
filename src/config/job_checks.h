// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What must hold between the values of a job, each of which is fine alone.

#include "config/job_fields.h"
#include "config/job_findings.h"

namespace quadrille::internal {

/// Fills in values that follow from others (ffn, vocab, context, sequence, steps) and reports what
/// contradicts. A rule is skipped where one of its values is wrong already.
void complete_and_check(JobDraft& draft, JobFindings& findings);

}  // namespace quadrille::internal
