// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/foreign/report/foreign_schemas.h"
#include "client/foreign/report/msprobe_rules.h"
#include "client/foreign/report/msprobe_verdict.h"

// The advice that early releases of msprobe wrote about their results.
namespace msitd::report {

// Returns true if the advice treats a row as a failure: by its metrics, its
// statistics or its hashes, depending on the mode. A row without a counterpart
// is not a failure.
bool IsInaccurate(const MsprobeRow& row, MsprobeMode mode,
                  const MsprobeRules& rules);

// Returns the advice for the first row that fails.
std::string AdviceFor(const std::string& leaf, const MsprobeRules& rules);

}  // namespace msitd::report
