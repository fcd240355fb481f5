// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "client/foreign/formats/file_entry.h"

namespace msitd::formats {

// The first number in the header of a dump of CANN nano.
inline constexpr uint32_t kGeNanoMagic = 0x5a5a5a5a;

bool IsGeNano(std::string_view head);

// Opens a dump with the header `head`, which consists of lists of tagged
// values, and with raw bytes that begin at `begin` of `bytes`.
OpenedFile OpenGeNano(std::string_view head,
                      std::shared_ptr<const ByteSource> bytes, uint64_t begin);

}  // namespace msitd::formats
