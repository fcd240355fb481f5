// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protos/base/tensor_key.h"

// Keys of the primary index (docs/format/index.md).
namespace msitd::storage {

// Key of one part of one tensor; names are ids of the name table. The fields
// are in the order of the primary index, and encoded keys sort in the same
// order.
struct IndexKey {
  uint32_t run = 0;
  uint32_t rank = 0;    // 24 bits.
  uint32_t device = 0;  // Name id.
  uint64_t token = 0;   // 40 bits.
  uint32_t op = 0;      // Name id.
  uint32_t call = 0;
  Io io = Io::kUnspecified;
  uint32_t index = 0;  // Name id.
  uint32_t part = 0;   // 24 bits.

  friend bool operator==(const IndexKey&, const IndexKey&) = default;
};

// The keys of all parts of a tensor share the first kTensorPrefixBytes bytes.
inline constexpr size_t kIndexKeyBytes = 32;
inline constexpr size_t kTensorPrefixBytes = 29;
inline constexpr size_t kRunPrefixBytes = 4;
inline constexpr size_t kDevicePrefixBytes = 11;  // Number of bytes up to and
                                                  // including the device.

using EncodedKey = std::array<char, kIndexKeyBytes>;

EncodedKey EncodeIndexKey(const IndexKey& key);

// Returns nothing if `bytes` is not an encoded key.
std::optional<IndexKey> DecodeIndexKey(std::string_view bytes);

inline std::string_view View(const EncodedKey& key) {
  return {key.data(), key.size()};
}

inline std::string_view TensorPrefix(const EncodedKey& key) {
  return {key.data(), kTensorPrefixBytes};
}

inline std::string_view DevicePrefix(const EncodedKey& key) {
  return {key.data(), kDevicePrefixBytes};
}

// Returns the common prefix of all keys of a run in Table::kTensor.
std::string TensorRunPrefix(uint64_t run);

// As TensorRunPrefix, for tables with several kinds of keys, each of which
// begins with its own letter.
std::string RunPrefix(char tag, uint64_t run);

}  // namespace msitd::storage
