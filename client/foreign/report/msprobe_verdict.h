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

// The columns of msprobe's report that depend on several rows.
namespace msitd::report {

// The values by which msprobe judges a row.
struct MsprobeRow {
  std::string name;  // `Functional.linear.0.forward.input.0`
  bool is_matched = false;
  // True for a receive buffer or scratch, which is not compared.
  bool is_ignored = false;
  bool dtypes_differ = false;
  bool shapes_differ = false;
  bool requires_grads_differ = false;
  // True for two values that are not tensors and differ.
  bool scalars_differ = false;
  MsprobeStatistics target;
  MsprobeStatistics golden;
  // For kSummary: the relative difference of the norms.
  std::string norm_relative;
  // For kAll: the cells that are numbers.
  std::optional<double> cosine;
  std::optional<double> within_1_permille;
  std::optional<double> max_abs;
  // For kMd5. Empty if there is none.
  std::string target_hash;
  std::string golden_hash;
  bool has_two_kinds_of_hash = false;
  // Why the row must not pass if msprobe's rules find nothing; empty if only
  // the rules decide.
  std::string doubt;
  // True if there is no doubt once the rules have judged the row.
  bool rules_settle_doubt = false;
};

struct MsprobeVerdict {
  std::string result;    // pass, warning, error or ignored.
  std::string messages;  // A JSON list.
};

// Returns true if msprobe treats the leaf as an output: its name contains
// `.output.`.
bool IsMsprobeOutputName(std::string_view leaf);
bool IsMsprobeOutput(const MsprobeRow& row);

// Judges the rows of one entry, which is a call of an op in one direction:
// inputs, parameters, outputs. As in msprobe, every row whose name contains
// `.output.` is an output, and rows without a counterpart pass unless hashes
// are compared. Rows in doubt are at least `warning`, even those of APIs that
// the rules ignore.
std::vector<MsprobeVerdict> JudgeEntry(std::span<const MsprobeRow> rows,
                                       MsprobeMode mode,
                                       const MsprobeRules& rules);

}  // namespace msitd::report
