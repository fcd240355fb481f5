// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msitd::ask {

// Returns the reason of a row without its numbers, so that reasons that differ
// only in numbers are counted together: `rank 3 has no such tensor` becomes
// `rank N has no such tensor`. Numbers in names stay, such as those of an op
// (`layers.0`) or of one of `run_names`: `only in run tp1` differs from `only
// in run tp2`.
std::string AlikeReason(std::string_view reason,
                        const std::vector<std::string>& run_names);

}  // namespace msitd::ask
