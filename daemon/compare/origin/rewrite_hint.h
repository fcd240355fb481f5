// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/compare/match/matcher.h"

namespace msitd::compare {

// If the parts of an op are left over in both runs because one of them has the
// op inside a wrapper: the flag of msitctl that pairs them, such as
// `--rewrite '^root\.0=>root'`. Else empty.
std::string RewriteHint(const std::vector<TensorPair>& pairs,
                        std::string_view op);

}  // namespace msitd::compare
