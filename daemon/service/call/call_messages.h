// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "daemon/service/call/admission.h"

// Requests and answers, and their bytes. A request is parsed when its call
// runs, and an answer is serialised before the work ends. So neither a request
// that waits nor an answer that nobody takes costs more memory than its bytes.
namespace msitd::service {

// For most calls, whose requests hold a filter or less.
inline constexpr size_t kRequestBytesMax = size_t{512} << 10;

// For streams, whose requests are parsed on threads of gRPC.
inline constexpr size_t kStreamRequestBytesMax = size_t{64} << 10;

// For policies, mappings of ops and values of custom metrics.
inline constexpr size_t kLargeRequestBytesMax = size_t{4} << 20;

// The memory that a request of so many bytes may take once it is parsed.
constexpr size_t ParsedBytesMax(size_t request_bytes_max) {
  return 8 * request_bytes_max;
}

// Parses `bytes` and lets go of them.
//
// Errors: RESOURCE_EXHAUSTED with REQUEST_TOO_LARGE for more than `bytes_max`,
// or if it would take more than ParsedBytesMax() in memory; INVALID_ARGUMENT
// with FIELD_INVALID if it is no message.
absl::Status ParseRequest(grpc::ByteBuffer& bytes, size_t bytes_max,
                          google::protobuf::Message& out);

// Replaces `out` by the bytes of `message`.
void EncodeAnswer(const google::protobuf::Message& message,
                  grpc::ByteBuffer& out);

// The messages of one unary call, which owns them, and its pass.
// Thread-compatible.
class CallMessages {
 public:
  CallMessages(CallPass pass, size_t bytes_max,
               google::protobuf::Message& request,
               google::protobuf::Message& response)
      : pass_(std::move(pass)),
        bytes_max_(bytes_max),
        request_(request),
        response_(response) {}

  // Parses the request, and checks that the caller may ask for that. Errors:
  // those of ParseRequest and CallPass::CheckRequest.
  absl::Status Parse() {
    const absl::Status status =
        ParseRequest(request_bytes_, bytes_max_, request_);
    return status.ok() ? pass_.CheckRequest(request_) : status;
  }

  CallPass& pass() { return pass_; }

  // Serialises the answer and empties it. Returns the number of bytes.
  size_t Encode();

  // The answer may name what was made.
  void NoteAnswer() { pass_.NoteAnswer(response_); }

  grpc::ByteBuffer& request_bytes() { return request_bytes_; }
  const grpc::ByteBuffer& response_bytes() const { return response_bytes_; }

 private:
  CallPass pass_;
  const size_t bytes_max_;
  google::protobuf::Message& request_;
  google::protobuf::Message& response_;
  grpc::ByteBuffer request_bytes_;
  grpc::ByteBuffer response_bytes_;
};

}  // namespace msitd::service
