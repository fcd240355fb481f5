// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "msitd/v1/comparison_matching.pb.h"

namespace msitd::ask {

// Returns how the tensors of two runs were paired, one sentence for each rule.
// Empty if only tensors with equal names were paired. Not printable: texts of
// the user are as they are.
std::vector<std::string> MatchingLines(const v1::Matching& matching);

}  // namespace msitd::ask
