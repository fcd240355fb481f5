// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/mapping_attachment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "client/ask/query/exit_code.h"
#include "client/ask/text/policy_text.h"
#include "client/ask/text/text.h"
#include "client/msitctl/run/attachment_transfer.h"
#include "protos/base/attachment_limits.h"
#include "protos/base/mapping_limits.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

using Stub = v1::AttachmentService::Stub;

// The digits of the hash in the name, which are sufficient to distinguish the
// mappings of a run.
constexpr size_t kHashDigits = 16;

// Responses after which there is no comparison.
constexpr std::array kRefusals = {
    grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::NOT_FOUND,
    grpc::StatusCode::PERMISSION_DENIED, grpc::StatusCode::RESOURCE_EXHAUSTED,
    grpc::StatusCode::FAILED_PRECONDITION};

bool IsError(const ask::Outcome& outcome, grpc::StatusCode code) {
  return outcome.exit_code == ask::ExitCodeOf(code);
}

// Returns OK if the attachment in `request` has this hash and is a mapping.
ask::Outcome UseEqual(Invocation& invocation,
                      const v1::GetAttachmentRequest& request,
                      const std::string& hash) {
  v1::Attachment found;
  MSITCTL_RETURN_IF_FAILED(
      invocation.Ask(&Stub::GetAttachment, request, found));
  if (found.hash() == hash && found.media_type() == kMappingMediaType) {
    return {};
  }
  return ask::UsageError(fmt::format(
      "--mapping-file: run {} has another attachment {}; attach the file under "
      "a different name, and pass that name to --mapping",
      ask::Printable(request.run()), ask::Printable(request.name())));
}

}  // namespace

ask::Outcome AttachMapping(Invocation& invocation,
                           const std::string& target_run,
                           const std::string& file,
                           v1::Matching::Mapping& mapping, bool& is_new) {
  is_new = false;
  const absl::StatusOr<std::string> bytes =
      ask::ReadTextFile(file, kAttachmentBytesMax);
  if (!bytes.ok()) {
    return ask::LocalError(
        fmt::format("--mapping-file: {}: {}", file, Message(bytes.status())));
  }
  return AttachMappingText(invocation, target_run, *bytes, mapping, is_new);
}

ask::Outcome AttachMappingText(Invocation& invocation,
                               const std::string& target_run,
                               const std::string& text,
                               v1::Matching::Mapping& mapping, bool& is_new) {
  is_new = false;
  const std::string hash =
      HashText(chunk::HashBytes(std::as_bytes(std::span(text))));
  v1::GetAttachmentRequest request;
  request.set_run(target_run);
  request.set_name(
      fmt::format("mapping-{}.jsonl", hash.substr(0, kHashDigits)));
  mapping.set_side(v1::Matching::Mapping::TARGET);
  mapping.set_attachment(request.name());
  ask::Outcome outcome = UseEqual(invocation, request, hash);
  if (!IsError(outcome, grpc::StatusCode::NOT_FOUND)) return outcome;
  v1::WriteAttachmentRequest::Open open;
  open.set_run(target_run);
  open.set_name(request.name());
  open.set_media_type(std::string(kMappingMediaType));
  v1::Attachment written;
  outcome = WriteAttachment(invocation, std::move(open), text, written);
  // Another client may have created it first.
  if (IsError(outcome, grpc::StatusCode::ALREADY_EXISTS)) {
    return UseEqual(invocation, request, hash);
  }
  is_new = outcome.ok();
  return outcome;
}

void DetachIfRefused(Invocation& invocation, const std::string& target_run,
                     const v1::Matching::Mapping& mapping,
                     ask::Outcome& created) {
  const bool is_refused =
      std::any_of(kRefusals.begin(), kRefusals.end(),
                  [&](auto code) { return IsError(created, code); });
  if (!is_refused) return;
  v1::DeleteAttachmentRequest request;
  request.set_run(target_run);
  request.set_name(mapping.attachment());
  google::protobuf::Empty empty;
  const ask::Outcome outcome =
      invocation.AskToTheEnd(&Stub::DeleteAttachment, request, empty);
  if (outcome.ok() || IsError(outcome, grpc::StatusCode::NOT_FOUND)) return;
  created.error +=
      fmt::format("; {} stays attached to run {}", mapping.attachment(),
                  ask::Printable(target_run));
}

}  // namespace msitd::msitctl
