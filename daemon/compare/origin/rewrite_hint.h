// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Returns a flag of msitctl that pairs the parts of `op`, such as
// `--rewrite '^root\.0=>root'`. Returns an empty text unless the parts are
// unmatched in both runs because one run has the op inside a wrapper.
std::string RewriteHint(const std::vector<TensorPair>& pairs,
                        std::string_view op);

}  // namespace msitd::compare
