// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "daemon/service/call/admission.h"

// Requests and responses, and their encoded bytes. A request is parsed when its
// call runs, and a response is serialized before the work ends. A waiting
// request or a response that is not received therefore needs no more memory
// than its bytes.
namespace msitd::service {

// For most calls, whose requests contain at most a filter.
inline constexpr size_t kRequestBytesMax = size_t{512} << 10;

// For streams, whose requests are parsed on threads of gRPC.
inline constexpr size_t kStreamRequestBytesMax = size_t{64} << 10;

// For policies, mappings of ops and values of custom metrics.
inline constexpr size_t kLargeRequestBytesMax = size_t{4} << 20;

// Maximum memory that a request of this size may need after parsing.
constexpr size_t ParsedBytesMax(size_t request_bytes_max) {
  return 8 * request_bytes_max;
}

// Parses `bytes` and releases them.
//
// Errors: RESOURCE_EXHAUSTED with REQUEST_TOO_LARGE if there are more than
// `bytes_max` bytes or if the message would need more memory than
// ParsedBytesMax(); INVALID_ARGUMENT with FIELD_INVALID if the bytes are not a
// valid message.
absl::Status ParseRequest(grpc::ByteBuffer& bytes, size_t bytes_max,
                          google::protobuf::Message& out);

// Replaces `out` with the bytes of `message`.
void EncodeAnswer(const google::protobuf::Message& message,
                  grpc::ByteBuffer& out);

// The admission and the messages of one unary call. The messages belong to the
// call. Thread-compatible.
class CallMessages {
 public:
  CallMessages(CallPass pass, size_t bytes_max,
               google::protobuf::Message& request,
               google::protobuf::Message& response)
      : pass_(std::move(pass)),
        bytes_max_(bytes_max),
        request_(request),
        response_(response) {}

  // Parses the request, and checks that the caller is allowed to make it.
  // Errors: those of ParseRequest and CallPass::CheckRequest.
  absl::Status Parse() {
    const absl::Status status =
        ParseRequest(request_bytes_, bytes_max_, request_);
    return status.ok() ? pass_.CheckRequest(request_) : status;
  }

  CallPass& pass() { return pass_; }

  // Serializes the response and clears it. Returns the number of bytes.
  size_t Encode();

  // Records the target if the response names a created object.
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
