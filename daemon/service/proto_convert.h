// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/timestamp.pb.h"
#include "msitd/v1/filter.pb.h"
#include "msitd/v1/run_service.pb.h"
#include "msitd/v1/tensor_service.pb.h"
#include "protos/base/summary.h"
#include "storage/face/types.h"

// Conversion between domain structs and messages, and validation of request
// fields that several services share.
namespace msitd::service {

// Page sizes of all List calls. A request of 0 gets the default, and a request
// above the maximum gets the maximum.
inline constexpr int kPageSizeDefault = 100;
inline constexpr int kPageSizeMax = 1000;

// Validates a name in a request. `what` describes the named object in errors.
//
// Errors: INVALID_ARGUMENT with NAME_INVALID or NAME_TOO_LONG.
absl::Status CheckName(std::string_view what, std::string_view name,
                       size_t bytes_max);
absl::Status CheckRunName(std::string_view name);

// Returns the number of results per page.
//
// Errors: INVALID_ARGUMENT with FIELD_INVALID for a negative size.
absl::StatusOr<int> ToPageSize(int32_t page_size);

// Converts a filter to a selector after validating all limits. An absent filter
// is the default instance.
//
// Errors: INVALID_ARGUMENT with FIELD_INVALID; the message names the field.
absl::StatusOr<Selector> ToSelector(const v1::TensorFilter& filter);

void ToProto(const Selector& selector, v1::TensorFilter& out);
void ToProto(int64_t time_ns, google::protobuf::Timestamp& out);
void ToProto(const Summary& summary, v1::Summary& out);
void ToProto(const storage::TensorInfo& tensor, v1::Tensor& out);
void ToProto(const storage::RunRetention& retention, v1::Retention& out);
void ToProto(const storage::RunInfo& run, v1::Run& out);

}  // namespace msitd::service
