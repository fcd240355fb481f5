// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/piece_memory.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory_resource>
#include <random>

namespace msitd::libmsit {
namespace {

// Counts the bytes that are not given back.
class Host : public std::pmr::memory_resource {
 public:
  size_t bytes() const { return bytes_; }

 private:
  void* do_allocate(size_t bytes, size_t alignment) override {
    bytes_ += bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, size_t bytes, size_t alignment) override {
    bytes_ -= bytes;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  size_t bytes_ = 0;
};

TEST(PieceMemoryTest, PiecesDoNotOverlap) {
  struct Piece {
    size_t bytes;
    size_t alignment;
    unsigned char filled;
  };
  Host host;
  {
    PieceMemory memory(&host);
    std::mt19937 random(3);
    std::map<unsigned char*, Piece> pieces;
    for (int i = 0; i < 20000; ++i) {
      if (!pieces.empty() && random() % 2 == 0) {
        auto it = pieces.begin();
        std::advance(it, random() % pieces.size() % 50);
        for (size_t at = 0; at < it->second.bytes; ++at) {
          ASSERT_EQ(it->first[at], it->second.filled);
        }
        memory.deallocate(it->first, it->second.bytes, it->second.alignment);
        pieces.erase(it);
        continue;
      }
      const size_t bytes_max = i % 500 == 0  ? 2 * PieceMemory::kPieceBytesMax
                               : i % 50 == 0 ? 5000
                                             : 100;
      const Piece piece = {1 + random() % bytes_max, size_t{1} << random() % 8,
                           static_cast<unsigned char>(random())};
      auto* const at = static_cast<unsigned char*>(
          memory.allocate(piece.bytes, piece.alignment));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(at) % piece.alignment, 0u);
      std::memset(at, piece.filled, piece.bytes);
      ASSERT_TRUE(pieces.emplace(at, piece).second);
    }
    for (const auto& [at, piece] : pieces) {
      memory.deallocate(at, piece.bytes, piece.alignment);
    }
  }
  EXPECT_EQ(host.bytes(), 0u);
}

TEST(PieceMemoryTest, FreePiecesAreUsedAgain) {
  Host host;
  PieceMemory memory(&host);
  for (const size_t bytes : {1, 24, 40, 3000, 200'000}) {
    memory.deallocate(memory.allocate(bytes), bytes);
    const size_t before = host.bytes();
    for (int i = 0; i < 1000; ++i) {
      memory.deallocate(memory.allocate(bytes), bytes);
    }
    EXPECT_EQ(host.bytes(), before) << bytes;
  }
}

}  // namespace
}  // namespace msitd::libmsit
