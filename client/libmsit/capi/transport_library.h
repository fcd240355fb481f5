// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "client/libmsit/core/delivery/transport.h"
#include "client/libmsit/core/interruptible_wait.h"
#include "client/libmsit/core/status.h"

namespace msitd::libmsit {

// Finds the daemon of a client by the rule of all clients
// (protos/endpoint/endpoint_rule.h). `given` is the endpoint that the host
// names; "" if it names none. Starts the personal daemon of the user if that is
// the daemon, and waits for it for at most `timeout`. A daemon that is still
// starting then is used as well. If MSITD_TLS or a file for TLS is set, the
// default is TCP on this machine instead of a personal daemon.
//
// Errors: UNAVAILABLE with a message for the user.
Status FindDaemon(std::string_view given, std::chrono::microseconds timeout,
                  const InterruptCheck& interrupt, std::string* endpoint);

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
