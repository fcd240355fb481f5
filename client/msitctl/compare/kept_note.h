// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// Prints on stderr if a run of a comparison contains the results of a user
// function instead of tensors (`--keep FILE.py:FUNCTION`), and whether the
// function is the same in both runs. Prints nothing about a run that cannot be
// queried.
void TellOfKept(Invocation& invocation, const std::string& golden,
                const std::string& target);

}  // namespace msitd::msitctl
