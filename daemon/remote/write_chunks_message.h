// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "msitd/v1/ingest_service.pb.h"

namespace msitd::service {

// A received v1.WriteChunksRequest. Leaves a chunk in the memory of gRPC, so
// that it is copied only once, to its destination. Thread-compatible.
class WriteChunksMessage {
 public:
  // Reads the bytes of the next message. Returns false if they are not a valid
  // message.
  bool Read(grpc::ByteBuffer& bytes);

  // Size of the chunk; nullopt if the message is not a chunk.
  std::optional<size_t> chunk_bytes() const;

  // Copies the chunk to `out`, which must have chunk_bytes() bytes, and
  // releases it.
  void TakeChunk(std::span<std::byte> out);

  // The message if it is not a chunk.
  const v1::WriteChunksRequest& request() const { return request_; }

 private:
  // Returns whether the message consists of a single chunk, which slices_ then
  // holds.
  bool ReadChunk(const grpc::ByteBuffer& bytes);

  v1::WriteChunksRequest request_;
  std::vector<grpc::Slice> slices_;
  size_t prefix_bytes_ = 0;  // In the first slices, before the chunk.
  size_t chunk_bytes_ = 0;
};

}  // namespace msitd::service
