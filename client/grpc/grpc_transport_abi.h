// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/core/delivery/transport.h"

namespace msitd::client {

// The one symbol of libmsit_grpc.so. Its number changes with the layout of
// Transport and TransportListener, so that libraries of different versions
// refuse each other.
inline constexpr char kGrpcTransportMakerName[] = "msit_grpc_transport_v9";

// Returns a transport that speaks IngestService.WriteChunks with `endpoint`, a
// gRPC target. Null if there is no memory.
//
// `is_grpc_ours`: the process had no gRPC library before this one was loaded.
// Then this library silences the log of gRPC, unless the environment variable
// GRPC_VERBOSITY is set.
using GrpcTransportMaker = Transport* (*)(const char* endpoint,
                                          bool is_grpc_ours);

}  // namespace msitd::client
