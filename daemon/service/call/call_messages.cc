// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/call_messages.h"

#include <fmt/format.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <string_view>

#include "daemon/service/call/request_size.h"
#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

// Responses are written in blocks of this size, and their messages are
// allocated in blocks of at most this size.
constexpr int kBlockBytes = 256 << 10;

absl::Status TooLarge(const google::protobuf::Message& request,
                      std::string_view problem) {
  return WithReason(MakeStatus(absl::StatusCode::kResourceExhausted, "a {} {}",
                               request.GetDescriptor()->name(), problem),
                    ErrorReason::kRequestTooLarge);
}

}  // namespace

google::protobuf::ArenaOptions ArenaOptionsOfCalls() {
  google::protobuf::ArenaOptions options;
  options.max_block_size = kBlockBytes;
  return options;
}

absl::Status ParseRequest(grpc::ByteBuffer& bytes, size_t bytes_max,
                          google::protobuf::Message& out) {
  if (bytes.Length() > bytes_max) {
    return TooLarge(out, fmt::format("of {} bytes, at most {} are taken",
                                     bytes.Length(), bytes_max));
  }
  const auto malformed = [&out] {
    return WithReason(
        MakeStatus(absl::StatusCode::kInvalidArgument, "the bytes are no {}",
                   out.GetDescriptor()->name()),
        ErrorReason::kFieldInvalid);
  };
  {
    grpc::ProtoBufferReader reader(&bytes);
    if (!reader.status().ok()) return malformed();
    const absl::StatusOr<size_t> size =
        ParsedBytes(reader, *out.GetDescriptor(), ParsedBytesMax(bytes_max));
    if (absl::IsResourceExhausted(size.status())) {
      return TooLarge(out, "of too many fields");
    }
    if (!size.ok()) return malformed();
  }
  grpc::ProtoBufferReader reader(&bytes);
  const bool is_message =
      reader.status().ok() && out.ParseFromZeroCopyStream(&reader);
  bytes.Clear();
  return is_message ? absl::OkStatus() : malformed();
}

void EncodeAnswer(const google::protobuf::Message& message,
                  grpc::ByteBuffer& out) {
  out.Clear();
  grpc::ProtoBufferWriter writer(&out, kBlockBytes,
                                 static_cast<int>(message.ByteSizeLong()));
  MSITD_CHECK(message.SerializeToZeroCopyStream(&writer));
}

size_t CallMessages::Encode() {
  EncodeAnswer(*response_, response_bytes_);
  request_ = nullptr;
  response_ = nullptr;
  arena_.Reset();
  return response_bytes_.Length();
}

}  // namespace msitd::service
