// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "client/libmsit/grpc/lent_chunks.h"
#include "client/libmsit/grpc/write_stream.h"

namespace msitd::libmsit {

// Parts of a transport that gRPC still uses. A stopped call ends only when its
// bytes have left the socket or the socket has ended. If the socket is full and
// the peer does not respond, this takes as long as the keepalive of the
// channel.
struct Remains {
  std::shared_ptr<grpc::Channel> channel;
  // Stopped streams.
  std::vector<std::unique_ptr<WriteStream>> streams;
  // Lent to `streams`; never null.
  std::shared_ptr<LentChunks> lent = std::make_shared<LentChunks>();
  // Memory that contains the lent chunks.
  std::vector<std::span<std::byte>> mappings;
};

// Frees the remains on a separate thread, as soon as gRPC releases them. Waits
// for that thread only briefly, because gRPC has usually released them already.
// If the system has no thread left, the remains are leaked.
void FreeInTime(std::unique_ptr<Remains> remains) noexcept;

}  // namespace msitd::libmsit
