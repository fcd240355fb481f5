// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "client/libmsit/core/delivery/transport.h"
#include "client/libmsit/core/status.h"

namespace msitd::libmsit {

// Returns the endpoint in the environment variable MSITD_ENDPOINT. If it is not
// set, returns the endpoint of the daemon on this node: its socket directory if
// that contains an ingest socket, otherwise its TCP port.
std::string EndpointOfEnvironment();

// Creates the transport for `endpoint`: shared memory for a path (see
// client/libmsit/shm/local_endpoint.h), otherwise gRPC.
//
// The gRPC transport is a separate library, so that only processes that use it
// load gRPC. It is the file named by the environment variable
// MSIT_GRPC_LIBRARY, otherwise libmsit_grpc.so in the folder `msit` next to
// this library, otherwise next to this library itself. It stays loaded until
// the process ends.
//
// Errors: INVALID_ARGUMENT if no transport supports the endpoint; NO_TRANSPORT,
// with the reason of the dynamic linker, if the library cannot be loaded.
Status MakeTransport(std::string_view endpoint,
                     std::unique_ptr<Transport, TransportDestroyer>* transport);

}  // namespace msitd::libmsit
