// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/mapping_loader.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "daemon/compare/match/mapping_parser.h"
#include "protos/base/attachment_limits.h"
#include "protos/base/mapping_limits.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

std::string Where(const MappingSource& source) {
  return fmt::format("attachment \"{}\" of run {}", source.attachment,
                     source.run);
}

absl::Status Invalid(const MappingSource& source, std::string_view problem) {
  return FieldInvalid("matching.mapping",
                      fmt::format("{}: {}", Where(source), problem));
}

absl::Status CheckInfo(const MappingSource& source,
                       const storage::AttachmentInfo& info) {
  if (source.hash != ContentHash() && source.hash != info.hash) {
    return WithReason(
        MakeStatus(absl::StatusCode::kFailedPrecondition,
                   "matching.mapping: {} has other bytes than when the "
                   "comparison was created: their hash is {}, not {}",
                   Where(source), HashText(info.hash), HashText(source.hash)),
        ErrorReason::kAttachmentNotFound);
  }
  if (info.media_type == kMappingMediaType) return absl::OkStatus();
  return Invalid(source, fmt::format("has the media type {}, not {}",
                                     info.media_type, kMappingMediaType));
}

}  // namespace

absl::StatusOr<LoadedMapping> LoadMapping(
    storage::Attachments& attachments, const MappingSource& source,
    absl::AnyInvocable<absl::Status()> check) {
  const auto info = attachments.GetAttachment(source.run, source.attachment);
  if (!info.ok()) return Annotate(info.status(), "matching.mapping");
  MSITD_RETURN_IF_ERROR(CheckInfo(source, *info));
  MappingParser parser;
  for (uint64_t offset = 0; offset < info->size_bytes;) {
    MSITD_RETURN_IF_ERROR(check());
    const auto bytes =
        attachments.ReadAttachment(*info, offset, kAttachmentPieceBytesMax);
    if (!bytes.ok()) return Annotate(bytes.status(), "matching.mapping");
    if (bytes->empty()) {
      return MakeStatus(absl::StatusCode::kDataLoss,
                        "{}: {} of {} bytes could be read", Where(source),
                        offset, info->size_bytes);
    }
    offset += bytes->size();
    const absl::Status status = parser.Append(*bytes);
    if (!status.ok()) return Invalid(source, Message(status));
  }
  auto mapping = parser.Finish();
  if (!mapping.ok()) return Invalid(source, Message(mapping.status()));
  return LoadedMapping{
      std::make_shared<const TensorMapping>(*std::move(mapping)), info->hash};
}

}  // namespace msitd::compare
