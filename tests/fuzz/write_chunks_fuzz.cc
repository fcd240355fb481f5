// SPDX-License-Identifier: Apache-2.0
// Messages of a stream of chunks, in arbitrary slices, as gRPC provides them. A
// message that protobuf accepts gives the same result as protobuf.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <optional>
#include <span>

#include "daemon/remote/write_chunks_message.h"
#include "protos/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {
namespace {

// The head of a message in an input: the length of the message, and the length
// of its slices.
struct Head {
  uint16_t message_bytes = 0;
  uint16_t slice_bytes = 0;
};

std::string SeedOf(const std::vector<std::string>& messages,
                   uint16_t slice_bytes) {
  std::string out;
  for (const std::string& message : messages) {
    out += BytesOf(Head{static_cast<uint16_t>(message.size()), slice_bytes});
    out += message;
  }
  return out;
}

std::string ChunkOf(size_t bytes) {
  v1::WriteChunksRequest request;
  request.set_chunk(std::string(bytes, 'c'));
  return request.SerializeAsString();
}

}  // namespace

std::vector<std::string> Seeds() {
  v1::WriteChunksRequest open;
  open.mutable_open()->set_run("run");
  open.mutable_open()->set_rank(3);
  v1::WriteChunksRequest coverage;
  coverage.mutable_coverage()->set_seen_count(5);
  const std::string first = open.SerializeAsString();
  const std::string last = coverage.SerializeAsString();
  const std::string unknown = "\xf2\x3f\x03xyz";
  return {SeedOf({first, ChunkOf(3), ChunkOf(200), last}, 16),
          SeedOf({first, ChunkOf(0), last}, 1),
          SeedOf({ChunkOf(20'000)}, 8'000),
          SeedOf({ChunkOf(5) + ChunkOf(7), ChunkOf(4) + unknown,
                  unknown + ChunkOf(4), ChunkOf(9) + last},
                 3)};
}

}  // namespace msitd::fuzz

namespace msitd::service {
namespace {

grpc::ByteBuffer BufferOf(std::string_view bytes, size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += slice_bytes) {
    const std::string_view part = bytes.substr(i, slice_bytes);
    slices.emplace_back(part.data(), part.size());
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// Reads one message of a stream. Returns false if the stream would end here.
bool Read(std::string_view bytes, size_t slice_bytes,
          WriteChunksMessage& message) {
  // Without this, protobuf would log a line for each name that is not UTF-8.
  const google::protobuf::LogSilencer silencer;
  v1::WriteChunksRequest expected;
  const bool is_message =
      expected.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  grpc::ByteBuffer buffer = BufferOf(bytes, slice_bytes);
  const bool is_read = message.Read(buffer);
  MSITD_CHECK(buffer.Length() == 0);
  MSITD_CHECK(is_read || !is_message);
  if (!is_read) return false;
  const std::optional<size_t> chunk_bytes = message.chunk_bytes();
  std::string chunk(chunk_bytes.value_or(0), '?');
  MSITD_CHECK(chunk.size() <= bytes.size());
  if (is_message) {
    MSITD_CHECK(chunk_bytes.has_value() == expected.has_chunk());
    MSITD_CHECK(chunk_bytes.has_value() ||
                message.request().message_case() == expected.message_case());
  }
  if (chunk_bytes.has_value()) {
    message.TakeChunk(std::as_writable_bytes(std::span(chunk)));
    MSITD_CHECK(!message.chunk_bytes().has_value());
  }
  MSITD_CHECK(!is_message || chunk == expected.chunk());
  return true;
}

}  // namespace
}  // namespace msitd::service

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  msitd::fuzz::Input input(data, size);
  msitd::service::WriteChunksMessage message;
  while (!input.empty()) {
    const auto message_bytes = input.Get<uint16_t>();
    const auto slice_bytes = input.Get<uint16_t>();
    if (!msitd::service::Read(input.Take(message_bytes),
                              std::max<size_t>(slice_bytes, 1), message)) {
      break;
    }
  }
  return 0;
}
