// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/client/foreign/formats/read_all.h"

namespace msitd::formats {

inline uint32_t Crc32Of(const std::string& bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (crc % 2 == 0 ? 0 : 0xedb88320);
    }
  }
  return ~crc;
}

// Returns a zip archive of stored members, given as names and bytes.
inline std::string ZipOf(
    const std::vector<std::pair<std::string, std::string>>& members) {
  std::string local;
  std::string central;
  for (const auto& [name, bytes] : members) {
    const auto size = static_cast<uint32_t>(bytes.size());
    const auto name_size = static_cast<uint16_t>(name.size());
    const std::string about = BytesOf<uint16_t>({20, 0, 0, 0, 0x21}) +
                              BytesOf<uint32_t>({Crc32Of(bytes), size, size}) +
                              BytesOf<uint16_t>({name_size, 0});
    const auto begin = static_cast<uint32_t>(local.size());
    local += "PK\x03\x04" + about + name + bytes;
    central += "PK\x01\x02" + BytesOf<uint16_t>({20}) + about +
               std::string(10, '\0') + BytesOf<uint32_t>({begin}) + name;
  }
  const auto count = static_cast<uint16_t>(members.size());
  return local + central + "PK\x05\x06" +
         BytesOf<uint16_t>({0, 0, count, count}) +
         BytesOf<uint32_t>({static_cast<uint32_t>(central.size()),
                            static_cast<uint32_t>(local.size())}) +
         BytesOf<uint16_t>({0});
}

}  // namespace msitd::formats
