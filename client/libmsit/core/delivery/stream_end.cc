// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/delivery/stream_end.h"

#include "protos/base/code_name.h"
#include "protos/base/error_reason.h"

namespace msitd::libmsit {
namespace {

enum Code : int32_t {
  kOk = 0,
  kInvalidArgument = 3,
  kPermissionDenied = 7,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
  kUnauthenticated = 16,
};

}  // namespace

StreamEnd EndOf(int32_t code, std::string_view reason) {
  switch (code) {
    case kOk:
      return StreamEnd::kFinished;
    case kInvalidArgument:
      // The ring itself is invalid, so the error does not concern a chunk.
      return reason == ErrorReasonName(ErrorReason::kRingInvalid)
                 ? StreamEnd::kRefused
                 : StreamEnd::kChunkRefused;
    case kFailedPrecondition:
    case kPermissionDenied:
    case kUnauthenticated:
    case kUnimplemented:
      return StreamEnd::kRefused;
    default:
      return StreamEnd::kLost;
  }
}

std::string EndMessage(int32_t code, std::string_view message,
                       std::string_view reason) {
  std::string out(StatusCodeName(code));
  out.append(": ").append(message);
  if (!reason.empty()) out.append(" [").append(reason).append("]");
  return out;
}

std::string_view ReasonOfEnd(std::string_view end_message) {
  const size_t at = end_message.rfind(" [");
  if (at == std::string_view::npos || !end_message.ends_with(']')) return {};
  end_message.remove_prefix(at + 2);
  end_message.remove_suffix(1);
  return end_message;
}

}  // namespace msitd::libmsit
