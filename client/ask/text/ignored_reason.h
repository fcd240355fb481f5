// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd::ask {

// Why tensors in a table of receive buffers and scratch are skipped. Reports
// recognize such rows by it.
inline constexpr std::string_view kIgnoredReason =
    "ignored: a receive buffer or scratch";

// Reason of pairs that the user listed in a data mapping of msprobe.
inline constexpr std::string_view kDataMappingReason =
    "stated in the data mapping";

}  // namespace msitd::ask
