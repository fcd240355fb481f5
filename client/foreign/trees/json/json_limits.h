// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// What is taken of JSON that another tool wrote. Beyond a limit the rest of the
// file is refused.
namespace msitd::trees {

inline constexpr uint64_t kJsonFileBytesMax = uint64_t{64} << 30;

// Objects and arrays in each other. msprobe itself stops at 400.
inline constexpr size_t kJsonDepthMax = 512;

// One key, string or number.
inline constexpr size_t kJsonTextBytesMax = size_t{16} << 20;

// One value that is held in memory: what is in it, and their texts and keys
// together.
inline constexpr size_t kJsonNodesMax = size_t{1} << 20;
inline constexpr size_t kJsonHeldBytesMax = size_t{64} << 20;

}  // namespace msitd::trees
