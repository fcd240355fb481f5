// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd::server {

// What gRPC has to say goes to the logger `grpc` from here on; of its errors,
// which any stranger can cause, as many as a LogLimiter lets through. Called
// once, with logging set up and before gRPC starts.
void ForwardGrpcLog();

}  // namespace msitd::server
