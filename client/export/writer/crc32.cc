// SPDX-License-Identifier: Apache-2.0
#include "client/export/writer/crc32.h"

#include <array>
#include <cstring>

namespace msitd::exports {
namespace {

constexpr uint32_t kPolynomial = 0xedb88320;
constexpr size_t kStep = 8;

using Tables = std::array<std::array<uint32_t, 256>, kStep>;

// Row n has the CRC of a byte that n zero bytes follow.
constexpr Tables kTables = [] {
  Tables out{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    }
    out[0][byte] = crc;
  }
  for (size_t row = 1; row < kStep; ++row) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = out[row - 1][byte];
      out[row][byte] = before >> 8 ^ out[0][before & 0xff];
    }
  }
  return out;
}();

}  // namespace

uint32_t Crc32(uint32_t crc, std::string_view bytes) {
  crc = ~crc;
  while (bytes.size() >= kStep) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), kStep);
    word ^= crc;
    crc = 0;
    for (size_t i = 0; i < kStep; ++i) {
      crc ^= kTables[kStep - 1 - i][word >> 8 * i & 0xff];
    }
    bytes.remove_prefix(kStep);
  }
  for (const char c : bytes) {
    crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return ~crc;
}

}  // namespace msitd::exports
