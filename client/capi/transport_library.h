// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "client/core/status.h"
#include "client/core/transport.h"

namespace msitd::client {

// Makes the transport for `endpoint`.
//
// The gRPC transport is a library of its own, so that a process that does not
// use it does not load gRPC: the file that the environment variable
// MSIT_GRPC_LIBRARY names, or libmsit_grpc.so beside this library. It stays
// loaded until the process ends.
//
// Errors: INVALID_ARGUMENT if no transport takes such an endpoint;
// NO_TRANSPORT with the reason of the dynamic linker.
Status MakeTransport(std::string_view endpoint,
                     std::unique_ptr<Transport, TransportDestroyer>* transport);

}  // namespace msitd::client
