// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/foreign/report/foreign_schemas.h"
#include "client/foreign/report/msprobe_rules.h"
#include "client/foreign/report/msprobe_statistics.h"

// The columns of msprobe's report that follow from several rows.
namespace msitd::report {

// What msprobe looks at to judge a row.
struct MsprobeRow {
  std::string name;  // `Functional.linear.0.forward.input.0`
  bool is_matched = false;
  // True for a receive buffer or scratch, which nobody compares.
  bool is_ignored = false;
  bool dtypes_differ = false;
  bool shapes_differ = false;
  MsprobeStatistics target;
  MsprobeStatistics golden;
  // Of kSummary: that of the norms.
  std::string norm_relative;
  // Of kAll: the cells that are numbers.
  std::optional<double> cosine;
  std::optional<double> within_1_permille;
  std::optional<double> max_abs;
  // Of kMd5: empty if there is none.
  std::string target_hash;
  std::string golden_hash;
  bool has_two_kinds_of_hash = false;
  // Why the row is no `pass` where msprobe's rules find nothing; empty if they
  // alone decide.
  std::string doubt;
  // True if there is no doubt where the rules look at the row.
  bool rules_settle_doubt = false;
};

struct MsprobeVerdict {
  std::string result;    // pass, warning, error or ignored.
  std::string messages;  // A JSON list.
};

// True for what msprobe takes for an output: what has `.output.` in its name.
bool IsMsprobeOutputName(std::string_view leaf);
bool IsMsprobeOutput(const MsprobeRow& row);

// Judges the rows of one entry, which is a call of an op in one direction:
// inputs, parameters, outputs. As msprobe does, it takes every row of which the
// name has `.output.` in it for an output, and passes rows without a
// counterpart unless hashes are compared. Rows in doubt are at least `warning`,
// also those of APIs that the rules do not look at.
std::vector<MsprobeVerdict> JudgeEntry(std::span<const MsprobeRow> rows,
                                       MsprobeMode mode,
                                       const MsprobeRules& rules);

}  // namespace msitd::report
