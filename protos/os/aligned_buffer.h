// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "protos/base/check.h"
#include "protos/base/limits.h"

namespace msitd {

constexpr uint64_t AlignUp(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Owns uninitialised memory that is suitable for O_DIRECT: both its address and
// its length are multiples of kChunkAlignment; the length is rounded up.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(uint64_t bytes)
      : size_(AlignUp(bytes, kChunkAlignment)),
        data_(size_ == 0 ? nullptr
                         : static_cast<std::byte*>(
                               std::aligned_alloc(kChunkAlignment, size_))) {
    MSITD_CHECK(size_ == 0 || data_ != nullptr);
  }

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  uint64_t size() const { return size_; }
  std::span<std::byte> span() { return {data_.get(), size_}; }
  std::span<const std::byte> span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  uint64_t size_ = 0;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace msitd
