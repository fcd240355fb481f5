// SPDX-License-Identifier: Apache-2.0
#include "daemon/remote/write_chunks_message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msitd::service {
namespace {

// Returns a buffer with slices of `slice_bytes` bytes.
grpc::ByteBuffer BufferOf(std::string_view bytes, size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += slice_bytes) {
    const std::string_view part = bytes.substr(i, slice_bytes);
    slices.emplace_back(part.data(), part.size());
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Encoded(std::string chunk) {
  v1::WriteChunksRequest request;
  request.set_chunk(std::move(chunk));
  return request.SerializeAsString();
}

std::string Taken(WriteChunksMessage& message) {
  std::string out(message.chunk_bytes().value(), '?');
  message.TakeChunk(std::as_writable_bytes(std::span(out)));
  return out;
}

TEST(WriteChunksMessageTest, ChunkIsTheSameHoweverItIsCut) {
  const std::string chunk = "the bytes of a chunk" + std::string(300, 'x');
  WriteChunksMessage message;
  for (const size_t slice_bytes : {1, 2, 3, 7, 100, 1000}) {
    grpc::ByteBuffer bytes = BufferOf(Encoded(chunk), slice_bytes);
    ASSERT_TRUE(message.Read(bytes)) << slice_bytes;
    EXPECT_EQ(bytes.Length(), 0u);
    ASSERT_EQ(message.chunk_bytes(), chunk.size());
    EXPECT_EQ(Taken(message), chunk) << slice_bytes;
    EXPECT_FALSE(message.chunk_bytes().has_value());
  }
}

TEST(WriteChunksMessageTest, EmptyChunkIsAChunk) {
  grpc::ByteBuffer bytes = BufferOf(std::string("\x12\0", 2), 2);
  WriteChunksMessage message;
  ASSERT_TRUE(message.Read(bytes));
  EXPECT_EQ(message.chunk_bytes(), 0u);
  EXPECT_EQ(Taken(message), "");
}

TEST(WriteChunksMessageTest, OtherMessagesFollowAChunk) {
  WriteChunksMessage message;
  grpc::ByteBuffer chunk = BufferOf(Encoded("abc"), 100);
  ASSERT_TRUE(message.Read(chunk));
  EXPECT_EQ(Taken(message), "abc");
  v1::WriteChunksRequest request;
  request.mutable_coverage()->set_seen_count(5);
  grpc::ByteBuffer coverage = BufferOf(request.SerializeAsString(), 100);
  ASSERT_TRUE(message.Read(coverage));
  EXPECT_FALSE(message.chunk_bytes().has_value());
  EXPECT_EQ(message.request().coverage().seen_count(), 5);
  grpc::ByteBuffer nothing = BufferOf("", 1);
  ASSERT_TRUE(message.Read(nothing));
  EXPECT_EQ(message.request().message_case(),
            v1::WriteChunksRequest::MESSAGE_NOT_SET);
}

TEST(WriteChunksMessageTest, FieldsOfLaterVersionsAreSkipped) {
  const std::string unknown = "\xf2\x3f\x03xyz";
  for (const std::string& bytes :
       {Encoded("abc") + unknown, unknown + Encoded("abc"),
        Encoded("first") + Encoded("abc")}) {
    grpc::ByteBuffer buffer = BufferOf(bytes, 4);
    WriteChunksMessage message;
    ASSERT_TRUE(message.Read(buffer));
    EXPECT_EQ(Taken(message), "abc");
  }
}

TEST(WriteChunksMessageTest, WhatIsCutOffIsNoMessage) {
  const std::string whole = Encoded("a chunk");
  WriteChunksMessage message;
  for (size_t count = 1; count < whole.size(); ++count) {
    grpc::ByteBuffer bytes = BufferOf(whole.substr(0, count), 3);
    EXPECT_FALSE(message.Read(bytes)) << count;
  }
}

TEST(WriteChunksMessageTest, AgreesWithProtobufOnAnyBytes) {
  std::mt19937 rng(7);
  int chunk_count = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = Encoded(std::string(rng() % 40, 'c'));
    if (rng() % 2 == 0) bytes += Encoded(std::string(rng() % 9, 'd'));
    for (uint32_t flips = rng() % 4; flips > 0; --flips) {
      bytes[rng() % std::min<size_t>(bytes.size(), 6)] ^=
          static_cast<char>(1 << rng() % 8);
    }
    v1::WriteChunksRequest expected;
    if (!expected.ParseFromString(bytes)) continue;
    grpc::ByteBuffer buffer = BufferOf(bytes, 1 + rng() % 8);
    WriteChunksMessage message;
    ASSERT_TRUE(message.Read(buffer));
    ASSERT_EQ(message.chunk_bytes().has_value(), expected.has_chunk());
    if (!expected.has_chunk()) continue;
    ++chunk_count;
    ASSERT_EQ(Taken(message), expected.chunk());
  }
  EXPECT_GT(chunk_count, 5'000);
}

}  // namespace
}  // namespace msitd::service
