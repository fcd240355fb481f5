// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "client/grpc/lent_chunks.h"
#include "client/grpc/write_stream.h"

namespace msitd::client {

// What is left of a transport while gRPC still works for it. A call whose bytes
// lie before a full socket ends when the socket does, which takes until the
// keepalive of the channel runs out.
struct Remains {
  std::shared_ptr<grpc::Channel> channel;
  // All were stopped.
  std::vector<std::unique_ptr<WriteStream>> streams;
  // Lent to `streams`; never null.
  std::shared_ptr<LentChunks> lent = std::make_shared<LentChunks>();
  // In which these lie.
  std::vector<std::span<std::byte>> mappings;
};

// Frees the remains, each when gRPC lets go of it, on a thread of its own.
// Waits for that thread for a moment only: as a rule gRPC has let go already.
// Where the system has no thread left the remains stay for good.
void FreeInTime(std::unique_ptr<Remains> remains) noexcept;

}  // namespace msitd::client
