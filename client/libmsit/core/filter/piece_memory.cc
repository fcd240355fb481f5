// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/piece_memory.h"

#include <algorithm>
#include <bit>
#include <new>

namespace msitd::libmsit {

std::optional<size_t> PieceMemory::PieceBytes(size_t bytes, size_t alignment) {
  if (bytes > kPieceBytesMax || alignment > kAlignment) return std::nullopt;
  return std::bit_ceil(std::max(bytes, kAlignment));
}

PieceMemory::Free*& PieceMemory::FirstFree(size_t piece_bytes) {
  return free_[static_cast<size_t>(std::countr_zero(piece_bytes))];
}

void* PieceMemory::do_allocate(size_t bytes, size_t alignment) {
  const std::optional<size_t> piece_bytes = PieceBytes(bytes, alignment);
  if (!piece_bytes) return host_->allocate(bytes, alignment);
  Free*& first = FirstFree(*piece_bytes);
  if (first == nullptr) return blocks_.allocate(*piece_bytes, kAlignment);
  Free* const piece = first;
  first = piece->next;
  return piece;
}

void PieceMemory::do_deallocate(void* piece, size_t bytes, size_t alignment) {
  const std::optional<size_t> piece_bytes = PieceBytes(bytes, alignment);
  if (!piece_bytes) {
    host_->deallocate(piece, bytes, alignment);
    return;
  }
  Free*& first = FirstFree(*piece_bytes);
  first = new (piece) Free{first};
}

}  // namespace msitd::libmsit
