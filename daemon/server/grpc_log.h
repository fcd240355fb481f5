// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd::server {

// Redirects the log of gRPC to the logger `grpc`. Any client can cause errors
// in gRPC, so a log::Limiter bounds them. Must be called once, after logging is
// set up and before gRPC starts.
void ForwardGrpcLog();

}  // namespace msitd::server
