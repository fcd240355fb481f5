// SPDX-License-Identifier: Apache-2.0
#include <new>

#include "client/grpc/grpc_transport.h"
#include "client/grpc/grpc_transport_abi.h"

extern "C" __attribute__((visibility("default"))) msitd::client::Transport*
msit_grpc_transport_v4(const char* endpoint) {
  try {
    return new msitd::client::GrpcTransport(endpoint);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

static_assert(std::is_same_v<decltype(&msit_grpc_transport_v4),
                             msitd::client::GrpcTransportMaker>);
