// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "client/ask/report/table/table.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/foreign/report/msprobe_rules.h"
#include "client/foreign/report/msprobe_verdict.h"

// What early releases of msprobe showed beside their results.
namespace msitd::report {

struct MsprobeColor {
  ask::RowColor color = ask::RowColor::kNone;
  // Why, a sentence each; those of yellow do not count for a red row.
  std::vector<std::string> reasons;
};

// Returns the colors of the rows of one entry. Rows of md5 have none.
std::vector<MsprobeColor> ColorEntry(std::span<const MsprobeRow> rows,
                                     MsprobeMode mode,
                                     const MsprobeRules& rules);

// True if a row counts as a failure for the advice: by its metrics, by its
// statistics or by its hashes, as the mode says. What has no counterpart does
// not.
bool IsInaccurate(const MsprobeRow& row, MsprobeMode mode,
                  const MsprobeRules& rules);

// What to do about a row that is the first to fail.
std::string AdviceFor(const std::string& leaf, const MsprobeRules& rules);

}  // namespace msitd::report
