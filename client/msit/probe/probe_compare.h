// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/command/logger.h"

namespace msitd::msit_command {

struct ProbeCompareOptions {
  // A dump.json, or a folder: see dump_pairs.h.
  std::string golden;
  std::string target;
  std::string output = "./output";
  bool is_xlsx = false;
  // Ignores the numbers of calls.
  bool is_fuzzy = false;
  // Mapping files in YAML; empty for none.
  std::string data_mapping;
  std::string cell_mapping;
  std::string api_mapping;
  std::string layer_mapping;
  // Pairs the names of MindSpore with those of torch, even without such a file.
  bool maps_frameworks = false;
  // Writes the advice of early releases next to the report.
  bool writes_advice = false;
  // The reports are an intermediate result, whose paths are not logged.
  bool is_intermediate = false;
  // Reports the results of msprobe even where they are wrong: tensors without a
  // counterpart pass.
  bool is_compat = false;
};

// Implements `msprobe compare` for dumps of msprobe: imports each pair of dumps
// into a private msitd, compares them, and writes
// `compare_result[_<rank>]_<time>.csv`, or `.xlsx`, into the output folder. For
// debug.json, the name begins with `debug_compare_result`. The
// report has tensors, checksums or statistics, whichever both sides recorded.
// Returns the paths of the reports, in the order of FindProbePairs.
//
// Errors: those of FindProbePairs; INVALID_ARGUMENT if the sides of a pair
// recorded different things, or for an invalid mapping; CANCELLED.
absl::StatusOr<std::vector<std::string>> CompareProbeDumps(
    const ProbeCompareOptions& options, ask::Interrupts& interrupts,
    Logger& log);

}  // namespace msitd::msit_command
