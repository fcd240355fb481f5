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

// One v1.WriteChunksRequest as it came. Leaves a chunk where gRPC put it, so
// that it is copied once, to where it is wanted. Thread-compatible.
class WriteChunksMessage {
 public:
  // Takes the bytes of the next message. False if they are no message.
  bool Read(grpc::ByteBuffer& bytes);

  // Nothing if the message is no chunk.
  std::optional<size_t> chunk_bytes() const;

  // Copies the chunk to `out`, which has chunk_bytes(), and lets go of it.
  void TakeChunk(std::span<std::byte> out);

  // The message, if it is no chunk.
  const v1::WriteChunksRequest& request() const { return request_; }

 private:
  // True if the message is a chunk and nothing else, which slices_ then holds.
  bool ReadChunk(const grpc::ByteBuffer& bytes);

  v1::WriteChunksRequest request_;
  std::vector<grpc::Slice> slices_;
  size_t prefix_bytes_ = 0;  // Of the first slices, before the chunk.
  size_t chunk_bytes_ = 0;
};

}  // namespace msitd::service
