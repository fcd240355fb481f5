// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace msitd::fuzz {

// Returns one file of each kind that client/foreign/formats reads.
std::vector<std::string> FormatsSeeds();

}  // namespace msitd::fuzz
