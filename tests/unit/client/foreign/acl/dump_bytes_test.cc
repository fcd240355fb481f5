// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/acl/dump_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <string_view>

namespace msitd::acl {
namespace {

void Put(DumpBytes& bytes, uint64_t offset, std::string_view text) {
  auto memory = std::make_shared<std::byte[]>(text.size());
  std::memcpy(memory.get(), text.data(), text.size());
  bytes.Put(offset, std::move(memory), text.size());
}

std::string TextOf(DumpBytes& bytes) {
  const auto source = bytes.TakePrefix();
  return source->ReadText(0, source->size()).value();
}

TEST(DumpBytesTest, SlicesInAnyOrderBecomeTheFile) {
  DumpBytes bytes;
  Put(bytes, 6, "world");
  EXPECT_EQ(bytes.prefix(), 0U);
  EXPECT_EQ(bytes.end(), 11U);
  Put(bytes, 0, "hel");
  EXPECT_EQ(bytes.prefix(), 3U);
  Put(bytes, 3, "lo ");
  EXPECT_EQ(bytes.prefix(), 11U);
  EXPECT_EQ(TextOf(bytes), "hello world");
}

TEST(DumpBytesTest, BytesBehindAGapAreNotInThePrefix) {
  DumpBytes bytes;
  Put(bytes, 0, "ab");
  Put(bytes, 3, "de");
  EXPECT_EQ(TextOf(bytes), "ab");
}

TEST(DumpBytesTest, NothingIsNoFile) {
  DumpBytes bytes;
  Put(bytes, 0, "");
  EXPECT_EQ(bytes.end(), 0U);
  EXPECT_EQ(bytes.TakePrefix()->size(), 0U);
}

TEST(DumpBytesTest, LaterSliceOverwritesAsInAFile) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    DumpBytes bytes;
    std::string file(60, '\0');
    std::string is_there(60, '\0');
    for (char c = 'a'; c <= 'z'; ++c) {
      const size_t offset = random() % 50;
      const std::string text(1 + random() % 10, c);
      Put(bytes, offset, text);
      file.replace(offset, text.size(), text);
      is_there.replace(offset, text.size(), text.size(), 'x');
      const size_t prefix = std::min(is_there.find('\0'), is_there.size());
      ASSERT_EQ(bytes.prefix(), prefix) << "round " << round;
      ASSERT_EQ(bytes.end(), is_there.rfind('x') + 1);
    }
    const size_t prefix = bytes.prefix();
    const auto source = bytes.TakePrefix();
    for (size_t begin = 0; begin <= prefix; ++begin) {
      for (size_t end = begin; end <= prefix; ++end) {
        ASSERT_EQ(source->ReadText(begin, end - begin).value(),
                  file.substr(begin, end - begin))
            << "round " << round;
      }
    }
    std::byte beyond{};
    EXPECT_FALSE(source->ReadAt(prefix, {&beyond, 1}).ok());
  }
}

}  // namespace
}  // namespace msitd::acl
