// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/tensor_file.h"

namespace msitd::formats {

// Reads the rest of the current tensor of `file`, `piece_bytes` at a time.
inline absl::StatusOr<std::string> ReadAll(TensorFile& file,
                                           size_t piece_bytes) {
  std::string all;
  std::string piece(piece_bytes, '\0');
  for (;;) {
    auto count = file.Read(std::as_writable_bytes(std::span<char>(piece)));
    if (!count.ok()) return count.status();
    if (*count == 0) return all;
    all.append(piece, 0, *count);
  }
}

// Opens bytes that refer to no other file.
inline absl::StatusOr<std::unique_ptr<TensorFile>> OpenText(
    std::string bytes, const OpenOptions& options = {}) {
  return OpenTensorBytes(std::make_shared<MemorySource>(std::move(bytes)), "",
                         options);
}

// Returns the concatenated bytes of numbers.
template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

// Returns a .npy file of version 1.
inline std::string NpyOf(const std::string& head, const std::string& bytes) {
  const std::string length = {static_cast<char>(head.size() & 0xff),
                              static_cast<char>(head.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + length + head + bytes;
}

}  // namespace msitd::formats
