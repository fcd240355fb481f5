// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ctl/invocation.h"

namespace msitd::ctl {

// Says on stderr if a run of a comparison has what a function keeps of tensors
// (`--keep FILE.py:FUNCTION`), and whether it is the same in both runs.
// Says nothing of a run that cannot be asked.
void TellOfKept(Invocation& invocation, const std::string& golden,
                const std::string& target);

}  // namespace msitd::ctl
