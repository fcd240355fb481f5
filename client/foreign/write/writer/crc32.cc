// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/crc32.h"

#include <libdeflate.h>

namespace msitd::write {

uint32_t Crc32(uint32_t crc, std::string_view bytes) {
  // libdeflate treats a null pointer as the beginning of a checksum.
  return bytes.empty() ? crc
                       : libdeflate_crc32(crc, bytes.data(), bytes.size());
}

}  // namespace msitd::write
