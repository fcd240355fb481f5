// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd::server {

// Sends the log of gRPC to the logger `grpc` from here on. Any stranger can
// cause errors of gRPC, so a log::Limiter bounds them. Called once, after
// logging is set up and before gRPC starts.
void ForwardGrpcLog();

}  // namespace msitd::server
