// SPDX-License-Identifier: Apache-2.0
#include "storage/segment/segment_set.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

absl::Status Examine(Env& env, SegmentFile& out) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                         env.OpenForRead(out.path, /*direct=*/false));
  MSITD_ASSIGN_OR_RETURN(out.size_bytes, file->Size());
  MSITD_ASSIGN_OR_RETURN(const uint64_t allocated, file->AllocatedBytes());
  out.disk_bytes = std::min(out.size_bytes, allocated);
  AlignedBuffer page(kSegmentHeaderBytes);
  MSITD_ASSIGN_OR_RETURN(const uint64_t bytes, file->Read(0, page.span()));
  const absl::StatusOr<SegmentHeader> header =
      DecodeSegmentHeader(page.span().first(bytes));
  if (header.ok()) {
    out.header = *header;
  } else {
    out.header_error = Message(header.status());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SegmentFile>> ListSegments(
    Env& env, const std::string& directory, bool may_vanish) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         env.List(directory));
  std::vector<SegmentFile> files;
  for (const std::string& name : names) {
    const std::optional<SegmentId> id = ParseSegmentFileName(name);
    if (!id.has_value()) continue;
    SegmentFile file;
    file.id = *id;
    file.path = directory + "/" + name;
    if (absl::Status status = Examine(env, file); !status.ok()) {
      if (may_vanish && absl::IsNotFound(status)) continue;
      return Annotate(status, "examine " + file.path);
    }
    files.push_back(std::move(file));
  }
  std::sort(
      files.begin(), files.end(),
      [](const SegmentFile& a, const SegmentFile& b) { return a.id < b.id; });
  return files;
}

absl::StatusOr<SegmentFile> ExamineSegment(Env& env,
                                           const std::string& directory,
                                           SegmentId id) {
  SegmentFile file;
  file.id = id;
  file.path = directory + "/" + SegmentFileName(id);
  MSITD_RETURN_IF_ERROR(Examine(env, file));
  return file;
}

std::map<uint64_t, uint64_t> KnownEnds(const std::vector<SegmentFile>& files,
                                       uint64_t store_id) {
  std::map<uint64_t, uint64_t> ends;
  for (const SegmentFile& file : files) {
    if (!file.header.has_value() || file.IsForeignTo(store_id)) continue;
    if (file.header->previous_segment_id == 0) continue;
    ends[file.header->previous_segment_id] = file.header->previous_end_bytes;
  }
  return ends;
}

}  // namespace msitd::storage
