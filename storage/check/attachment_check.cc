// SPDX-License-Identifier: Apache-2.0
#include "storage/check/attachment_check.h"

#include <limits>
#include <string_view>

#include "protos/chunk/piecewise_hash.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

absl::Status CheckBytes(AttachmentTable& table,
                        const AttachmentInfo& attachment) {
  chunk::PiecewiseHash hash;
  for (uint64_t offset = 0; offset < attachment.size_bytes;
       offset += AttachmentTable::kPieceBytes) {
    MSITD_ASSIGN_OR_RETURN(
        const std::string piece,
        table.Read(attachment, offset, AttachmentTable::kPieceBytes));
    hash.Add(piece);
  }
  if (hash.Get() == attachment.hash) return absl::OkStatus();
  return absl::DataLossError("its bytes do not match their hash");
}

}  // namespace

AttachmentCheckReport CheckAttachments(
    ChunkIndex& index, const std::function<void(std::string)>& report) {
  constexpr size_t kAll = std::numeric_limits<size_t>::max();
  AttachmentCheckReport out;
  for (const RunInfo& run : index.runs().List("", kAll)) {
    const auto attachments = index.attachments().List(run.id, "", kAll);
    if (!attachments.ok()) {
      report(fmt::format("the attachments of run {}: {}", run.spec.name,
                         Message(attachments.status())));
      continue;
    }
    for (const AttachmentInfo& attachment : *attachments) {
      ++out.attachment_count;
      out.attachment_bytes += attachment.size_bytes;
      const absl::Status status = CheckBytes(index.attachments(), attachment);
      if (status.ok()) continue;
      report(fmt::format("attachment {} of run {}: {}", attachment.name,
                         run.spec.name, Message(status)));
    }
  }
  return out;
}

}  // namespace msitd::storage
