// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/status_mapping.h"

#include <string>
#include <string_view>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

// gRPC refuses more than 8 KiB of trailers, which contain the message twice:
// percent-encoded, which may triple its size, and in the details in base64.
constexpr size_t kMessageBytesMax = 1024;
constexpr size_t kMetadataBytesMax = 256;

constexpr int kRetryDelayMs = 500;

// Protobuf string fields may contain only valid UTF-8.
std::string Printable(std::string_view text, size_t bytes_max) {
  std::string out(Utf8Prefix(text, bytes_max));
  if (!IsValidUtf8(out)) {
    for (char& c : out) {
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    }
  }
  return out;
}

bool IsRetryable(absl::StatusCode code) {
  return code == absl::StatusCode::kResourceExhausted ||
         code == absl::StatusCode::kUnavailable;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(Printable(Message(status), kMessageBytesMax));
  if (const std::string reason = Reason(status); !reason.empty()) {
    google::rpc::ErrorInfo info;
    info.set_reason(reason);
    info.set_domain("msitd");
    for (const auto& [key, value] : Metadata(status)) {
      (*info.mutable_metadata())[key] = Printable(value, kMetadataBytesMax);
    }
    details.add_details()->PackFrom(info);
  }
  if (IsRetryable(status.code())) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_nanos(kRetryDelayMs * 1'000'000);
    details.add_details()->PackFrom(retry);
  }
  // Both enumerations use the numbers of google.rpc.Code.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      details.message(), details.SerializeAsString());
}

}  // namespace msitd::service
