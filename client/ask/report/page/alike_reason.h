// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msitd::ask {

// Returns a reason of a row without its numbers, so that reasons which are
// alike but for them can be counted together: `rank 3 has no such tensor`
// becomes `rank N has no such tensor`. Numbers that are part of a name stay,
// such as those of an op (`layers.0`) or of one of `run_names`, whatever they
// are: `only in run tp1` is another reason than `only in run tp2`.
std::string AlikeReason(std::string_view reason,
                        const std::vector<std::string>& run_names);

}  // namespace msitd::ask
