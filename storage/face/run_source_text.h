// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd::storage {

// Between the sources of a run whose ranks lie in several of them, and the name
// of the store among them.
inline constexpr char kSourceSeparator = ',';
inline constexpr std::string_view kStoreSource = "local";

}  // namespace msitd::storage
