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

// What is left of a transport while gRPC still works for it. A stopped call
// ends only when its bytes have left the socket or the socket has ended. If the
// socket is full and its other end silent, this takes as long as the keepalive
// of the channel.
struct Remains {
  std::shared_ptr<grpc::Channel> channel;
  // All were stopped.
  std::vector<std::unique_ptr<WriteStream>> streams;
  // Lent to `streams`; never null.
  std::shared_ptr<LentChunks> lent = std::make_shared<LentChunks>();
  // Memory that the lent chunks lie in.
  std::vector<std::span<std::byte>> mappings;
};

// Frees each of the remains when gRPC lets go of it, on a thread of its own.
// Waits for that thread only for a moment: gRPC has usually let go already. If
// the system has no thread left, the remains are leaked.
void FreeInTime(std::unique_ptr<Remains> remains) noexcept;

}  // namespace msitd::client
