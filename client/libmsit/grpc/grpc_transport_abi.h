// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/libmsit/core/delivery/transport.h"

namespace msitd::libmsit {

// The only symbol of libmsit_grpc.so. Its number changes with the layout of
// Transport and TransportListener, so that libraries of different versions do
// not load each other.
inline constexpr char kGrpcTransportMakerName[] = "msit_grpc_transport_v9";

// Returns a transport that uses IngestService.WriteChunks of `endpoint`, a gRPC
// target. Null if there is no memory.
//
// `is_grpc_ours`: the process had not loaded a gRPC library before this one. In
// this case the library silences the log of gRPC, unless the environment
// variable GRPC_VERBOSITY is set.
using GrpcTransportMaker = Transport* (*)(const char* endpoint,
                                          bool is_grpc_ours);

}  // namespace msitd::libmsit
