// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd::msit_command {

// Returns bad_cases.py. Valid for the lifetime of the process.
const char* BadCasesScript();

}  // namespace msitd::msit_command
