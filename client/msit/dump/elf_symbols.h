// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/formats/byte_source.h"

namespace msitd::msit_command {

// Limits on the parts of a library that are read.
inline constexpr uint64_t kElfSectionsMax = 65535;
inline constexpr uint64_t kElfSymbolsMax = uint64_t{1} << 20;
inline constexpr uint64_t kElfNamesBytesMax = uint64_t{256} << 20;
// Longer names are searched only up to this length.
inline constexpr uint64_t kElfNameBytesMax = 4096;

// Returns whether the name of a dynamic symbol of a shared library contains all
// of `parts`, as `nm -D` would show it. The bytes are untrusted: each offset is
// checked against the length of the file. Returns INVALID_ARGUMENT if the
// library is not a little-endian ELF file of 64 bits or has no dynamic symbols,
// DATA_LOSS if it ends early, RESOURCE_EXHAUSTED beyond a limit.
absl::StatusOr<bool> HasDynamicSymbol(const formats::ByteSource& library,
                                      const std::vector<std::string>& parts);

// The same for a file. Errors name `path`.
absl::StatusOr<bool> HasDynamicSymbol(const std::string& path,
                                      const std::vector<std::string>& parts);

}  // namespace msitd::msit_command
