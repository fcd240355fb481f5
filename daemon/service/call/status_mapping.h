// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace msitd::service {

// Returns what a client gets for `status`: the same code, the message, and a
// google.rpc.Status in the details that carries
//  - one ErrorInfo with the reason and the metadata of the status, if it has
//    a reason;
//  - RetryInfo for RESOURCE_EXHAUSTED and UNAVAILABLE.
// Messages and metadata are cut to what fits into HTTP/2 trailers and made
// valid UTF-8. Thread-safe.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace msitd::service
