// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "client/ask/report/table/table.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/foreign/report/msprobe_rules.h"
#include "client/foreign/report/msprobe_verdict.h"

// The colors with which early releases of msprobe supplemented their results.
namespace msitd::report {

struct MsprobeColor {
  ask::RowColor color = ask::RowColor::kNone;
  // The reasons, one sentence each. A red row has no reasons for yellow.
  std::vector<std::string> reasons;
};

// Returns the colors of the rows of one entry. Rows of md5 have no colors.
std::vector<MsprobeColor> ColorEntry(std::span<const MsprobeRow> rows,
                                     MsprobeMode mode,
                                     const MsprobeRules& rules);

// Returns true if the advice treats a row as a failure: by its metrics, its
// statistics or its hashes, depending on the mode. A row without a counterpart
// is not a failure.
bool IsInaccurate(const MsprobeRow& row, MsprobeMode mode,
                  const MsprobeRules& rules);

// Returns the advice for the first row that fails.
std::string AdviceFor(const std::string& leaf, const MsprobeRules& rules);

}  // namespace msitd::report
