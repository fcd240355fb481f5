// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/msit/command/verb_table.h"

namespace msitd::msit_command {

// Log lines of msprobe do not name their logger.
inline constexpr char kProbeLogger[] = "msprobe";

// Each function adds one verb of msprobe, or the verbs that are refused.
void AddProbeCompare(VerbTable& table);
// Verbs that are Python programs: overflow_check, merge_result.
void AddProbePrograms(VerbTable& table);
void AddGraphVisualize(VerbTable& table);
void AddRefusedProbeVerbs(VerbTable& table);

}  // namespace msitd::msit_command
