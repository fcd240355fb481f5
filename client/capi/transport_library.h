// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "client/core/delivery/transport.h"
#include "client/core/status.h"

namespace msitd::client {

// Returns the endpoint that the environment variable MSITD_ENDPOINT names. If
// it names none, that of the daemon of this node: its socket directory if there
// is an ingest socket in it, else its TCP port.
std::string EndpointOfEnvironment();

// Makes the transport for `endpoint`: shared memory for a path (see
// client/shm/local_endpoint.h), gRPC for all else.
//
// The gRPC transport is a library of its own, so that only processes that use
// it load gRPC. It is the file named by the environment variable
// MSIT_GRPC_LIBRARY, or libmsit_grpc.so in the folder `msit` beside this
// library or else beside it. It stays loaded until the process ends.
//
// Errors: INVALID_ARGUMENT if no transport takes such an endpoint;
// NO_TRANSPORT, with the reason of the dynamic linker, if the library cannot be
// loaded.
Status MakeTransport(std::string_view endpoint,
                     std::unique_ptr<Transport, TransportDestroyer>* transport);

}  // namespace msitd::client
