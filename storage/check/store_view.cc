// SPDX-License-Identifier: Apache-2.0
#include "storage/check/store_view.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "protos/status/status.h"
#include "storage/index/db/live_copy.h"
#include "storage/store_files.h"

namespace msitd::storage {

absl::StatusOr<std::unique_ptr<ChunkIndex>> StoreView::OpenLive(
    const std::string& index_directory,
    std::unique_ptr<ScratchDirectory>& scratch) {
  std::error_code error;
  const std::string parent = std::filesystem::temp_directory_path(error);
  if (error) {
    return ErrnoStatus(error.value(), "find the directory for temporary files");
  }
  absl::StatusOr<std::unique_ptr<ChunkIndex>> index;
  // A compaction may remove a table before it is opened.
  for (int attempt = 0; attempt < kLiveAttemptsMax; ++attempt) {
    MSITD_ASSIGN_OR_RETURN(scratch,
                           ScratchDirectory::Make(parent, "msitd-inspect-"));
    const absl::Status copied =
        CopyLiveDatabase(index_directory, scratch->path());
    if (absl::IsUnavailable(copied)) {
      index = copied;
      continue;
    }
    MSITD_RETURN_IF_ERROR(copied);
    index = ChunkIndex::Open({.directory = scratch->path(),
                              .read_only = true,
                              .opens_all_tables = true});
    if (index.ok()) return index;
  }
  return Annotate(
      index.status(),
      "read the index beside its daemon, which changed it meanwhile "
      "or left it damaged");
}

absl::StatusOr<StoreView> StoreView::Open(const std::string& directory,
                                          Env& env) {
  const std::string index_directory = IndexDirectory(directory);
  std::optional<DirectoryLock> lock;
  std::unique_ptr<ScratchDirectory> scratch;
  absl::StatusOr<std::unique_ptr<ChunkIndex>> opened;
  absl::StatusOr<DirectoryLock> acquired =
      DirectoryLock::Acquire(directory, DirectoryLock::Mode::kShared);
  if (acquired.ok()) {
    lock = *std::move(acquired);
    opened =
        ChunkIndex::Open({.directory = index_directory, .read_only = true});
  } else if (absl::IsFailedPrecondition(acquired.status())) {
    opened = OpenLive(index_directory, scratch);
  } else {
    return acquired.status();
  }
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<ChunkIndex> index, std::move(opened));
  if (index->store_id() == 0) {
    return MakeStatus(absl::StatusCode::kDataLoss, "{} holds no store",
                      directory);
  }
  StoreView view(directory, env, std::move(lock), std::move(scratch),
                 std::move(index));
  MSITD_RETURN_IF_ERROR(view.Load());
  return view;
}

absl::StatusOr<StoreView> StoreView::Over(const std::string& directory,
                                          Env& env, DirectoryLock lock,
                                          std::unique_ptr<ChunkIndex> index) {
  StoreView view(directory, env, std::move(lock), nullptr, std::move(index));
  MSITD_RETURN_IF_ERROR(view.Load());
  return view;
}

absl::Status StoreView::Load() {
  MSITD_ASSIGN_OR_RETURN(segments_,
                         ListSegments(*env_, SegmentDirectory(directory_),
                                      /*may_vanish=*/true));
  known_ends_ = KnownEnds(segments_, index_->store_id());
  MSITD_ASSIGN_OR_RETURN(position_, index_->Position());
  return absl::OkStatus();
}

std::string StoreView::segment_directory() const {
  return SegmentDirectory(directory_);
}

absl::StatusOr<SegmentWalk> StoreView::Walk(const SegmentFile& segment,
                                            File& file) {
  SegmentScanner::ScanRange place;
  place.store_id = index_->store_id();
  place.segment = segment.id;
  place.end_bytes = segment.size_bytes;
  std::optional<uint64_t> known_end;
  if (const auto it = known_ends_.find(ToNumber(segment.id));
      it != known_ends_.end()) {
    known_end = it->second;
  }
  // The index refers only to durable frames, so all bytes before its position
  // are durable.
  const bool is_in_index = ToNumber(segment.id) == position_.segment_id;
  return SegmentWalk::Begin(file, place, known_end,
                            is_in_index ? position_.offset : 0);
}

}  // namespace msitd::storage
