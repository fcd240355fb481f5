// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>
#include <optional>

namespace msitd::libmsit {

// Provides small pieces of memory from large blocks of the host. Pieces that
// are freed are used again for pieces of the same size; the blocks return to
// the host with the destructor. Thread-compatible.
//
// Allocations throw std::bad_alloc if the host has no memory, and can be tried
// again. The pool of the standard library does not allow that: version 12 of
// libstdc++ accesses a null pointer after a failure.
class PieceMemory final : public std::pmr::memory_resource {
 public:
  // Pieces have sizes of powers of two. Larger ones, and those with an unusual
  // alignment, are taken from the host and returned to it one by one.
  static constexpr size_t kPieceBytesMax = size_t{256} << 10;

  // `host` outlives the object.
  explicit PieceMemory(std::pmr::memory_resource* host)
      : host_(host), blocks_(kFirstBlockBytes, host) {}
  PieceMemory(const PieceMemory&) = delete;
  PieceMemory& operator=(const PieceMemory&) = delete;

 private:
  // A piece that is free.
  struct Free {
    Free* next;
  };
  static constexpr size_t kAlignment = alignof(std::max_align_t);
  static constexpr size_t kFirstBlockBytes = size_t{16} << 10;
  // Powers of two up to kPieceBytesMax, from 1.
  static constexpr size_t kSizes = 19;

  // Returns the size of a piece for so many bytes, or nothing if they must be
  // taken from the host.
  static std::optional<size_t> PieceBytes(size_t bytes, size_t alignment);
  Free*& FirstFree(size_t piece_bytes);
  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void* piece, size_t bytes, size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::pmr::memory_resource* const host_;
  std::pmr::monotonic_buffer_resource blocks_;
  // Free pieces by the logarithm of their size.
  std::array<Free*, kSizes> free_ = {};
};

}  // namespace msitd::libmsit
