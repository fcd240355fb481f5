// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd::msit_command {

// Return the texts of overflow_check.py, merge_result.py and
// graph_visualize.py, whose first lines describe their arguments. Valid for the
// lifetime of the process.
const char* OverflowCheckScript();
const char* MergeResultScript();
const char* GraphVisualizeScript();

}  // namespace msitd::msit_command
