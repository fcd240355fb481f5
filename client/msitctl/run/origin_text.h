// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "msitd/v1/tensor_service.pb.h"

namespace msitd::msitctl {

// Returns an answer as lines of a label and a value. Printable: names of ops,
// stacks and requests are foreign text. `run` is the name of the run.
std::string OriginText(const std::string& run,
                       const v1::FindOriginResponse& answer);

}  // namespace msitd::msitctl
