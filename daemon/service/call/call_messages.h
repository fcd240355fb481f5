// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/arena.h>
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

// Options of arenas for the messages of a call: small ones need little, and
// large ones few blocks.
google::protobuf::ArenaOptions ArenaOptionsOfCalls();

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

// The admission and the messages of one unary call. The messages are in an
// arena, because a response may consist of thousands of small messages, which
// would otherwise be allocated and freed one by one. Thread-compatible.
class CallMessages {
 public:
  CallMessages(CallPass pass, size_t bytes_max)
      : pass_(std::move(pass)), bytes_max_(bytes_max) {}

  CallMessages(const CallMessages&) = delete;
  CallMessages& operator=(const CallMessages&) = delete;

  // Creates the messages, which are empty. Must be called once, before all
  // functions below.
  template <typename Request, typename Response>
  std::pair<Request*, Response*> Make() {
    auto* const request =
        google::protobuf::Arena::CreateMessage<Request>(&arena_);
    auto* const response =
        google::protobuf::Arena::CreateMessage<Response>(&arena_);
    request_ = request;
    response_ = response;
    return {request, response};
  }

  // Parses the request, and checks that the caller is allowed to make it.
  // Errors: those of ParseRequest and CallPass::CheckRequest.
  absl::Status Parse() {
    const absl::Status status =
        ParseRequest(request_bytes_, bytes_max_, *request_);
    return status.ok() ? pass_.CheckRequest(*request_) : status;
  }

  CallPass& pass() { return pass_; }

  // Serializes the response, and destroys both messages. Returns the number of
  // bytes.
  size_t Encode();

  // Records the target if the response names a created object.
  void NoteAnswer() { pass_.NoteAnswer(*response_); }

  grpc::ByteBuffer& request_bytes() { return request_bytes_; }
  const grpc::ByteBuffer& response_bytes() const { return response_bytes_; }

 private:
  CallPass pass_;
  const size_t bytes_max_;
  google::protobuf::Arena arena_{ArenaOptionsOfCalls()};
  google::protobuf::Message* request_ = nullptr;
  google::protobuf::Message* response_ = nullptr;
  grpc::ByteBuffer request_bytes_;
  grpc::ByteBuffer response_bytes_;
};

}  // namespace msitd::service
