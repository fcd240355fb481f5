// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd::storage {

// Separator between the sources of a run with several sources, and the name of
// the store in such a list.
inline constexpr char kSourceSeparator = ',';
inline constexpr std::string_view kStoreSource = "local";

}  // namespace msitd::storage
