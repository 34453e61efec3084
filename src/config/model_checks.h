// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What must hold between the values of a job's model.

#include "config/job_fields.h"
#include "config/job_findings.h"

namespace quadrille::internal {

/// Gives the family's defaults to what is not given, fills in ffn and heads, and reports keys that
/// have no effect (of any object) and what contradicts in the model.
void complete_and_check_model(JobDraft& draft, JobFindings& findings);

}  // namespace quadrille::internal
