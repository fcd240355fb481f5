// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// Says on stderr if a run of a comparison has what a function keeps of tensors
// (`--keep FILE.py:FUNCTION`), and whether it is the same in both runs.
// Says nothing of a run that cannot be asked.
void TellOfKept(Invocation& invocation, const std::string& golden,
                const std::string& target);

}  // namespace msitd::msitctl
