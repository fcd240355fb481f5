// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Limits on JSON that other tools wrote. Beyond a limit, the rest of the file
// is rejected.
namespace msitd::trees {

inline constexpr uint64_t kJsonFileBytesMax = uint64_t{64} << 30;

// Nesting depth of objects and arrays. msprobe itself stops at 400.
inline constexpr size_t kJsonDepthMax = 512;

// One key, string or number.
inline constexpr size_t kJsonTextBytesMax = size_t{16} << 20;

// Limits for one value in memory: the number of nested values, and the total
// size of texts and keys.
inline constexpr size_t kJsonNodesMax = size_t{1} << 20;
inline constexpr size_t kJsonHeldBytesMax = size_t{64} << 20;

}  // namespace msitd::trees
