// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace msitd::service {

// Converts `status` for a client: the same code, the message, and details that
// contain a google.rpc.Status with
// - one ErrorInfo with the reason and the metadata of the status, if it has a
//   reason;
// - RetryInfo for RESOURCE_EXHAUSTED and UNAVAILABLE.
//
// Messages and metadata are truncated to fit into HTTP/2 trailers and converted
// to valid UTF-8. Thread-safe.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace msitd::service
