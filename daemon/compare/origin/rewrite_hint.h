// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Returns the flag of msitctl that pairs the parts of `op`, such as
// `--rewrite '^root\.0=>root'`, if they are left over in both runs because one
// run has the op inside a wrapper. Otherwise returns an empty text.
std::string RewriteHint(const std::vector<TensorPair>& pairs,
                        std::string_view op);

}  // namespace msitd::compare
