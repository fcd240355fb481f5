// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/core/transport.h"

namespace msitd::client {

// The one symbol of libmsit_grpc.so. Its number changes with the layout of
// Transport and TransportListener, so that libraries of different versions
// refuse each other.
inline constexpr char kGrpcTransportMakerName[] = "msit_grpc_transport_v4";

// Returns a transport that speaks IngestService.WriteChunks with `endpoint`, a
// gRPC target; null if there is no memory.
using GrpcTransportMaker = Transport* (*)(const char* endpoint);

}  // namespace msitd::client
