// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd::ask {

// Why tensors in a table of receive buffers and scratch are skipped. Reports
// recognize such rows by it.
inline constexpr std::string_view kIgnoredReason =
    "ignored: a receive buffer or scratch";

}  // namespace msitd::ask
