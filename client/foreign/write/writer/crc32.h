// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace msitd::write {

// The CRC-32 of zip archives of `bytes` that follow those with the CRC `crc`;
// 0 for no bytes.
uint32_t Crc32(uint32_t crc, std::string_view bytes);

}  // namespace msitd::write
