// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace msitd::write {

// Returns the CRC-32, as in zip archives, of data with the CRC `crc` followed
// by `bytes`. The CRC of no data is 0.
uint32_t Crc32(uint32_t crc, std::string_view bytes);

}  // namespace msitd::write
