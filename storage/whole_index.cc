// SPDX-License-Identifier: Apache-2.0
#include "storage/whole_index.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protos/status/status.h"
#include "storage/env/logger.h"
#include "storage/log_replay.h"
#include "storage/segment/segment_scanner.h"

namespace msitd::storage {
namespace {

constexpr std::string_view kLostEntries =
    "the index has lost its last entries: its log was cut, or it is an older "
    "copy";

absl::Status NewerSegment(uint64_t number, uint64_t newest) {
  return MakeStatus(absl::StatusCode::kDataLoss,
                    "{} has acknowledged frames, but the newest segment in the "
                    "index is {}: {}",
                    SegmentFileName(SegmentId{number}), newest, kLostEntries);
}

class WholeIndexCheck {
 public:
  WholeIndexCheck(ChunkIndex& index, Env& env) : index_(index), env_(env) {}

  absl::Status Run(const std::vector<SegmentFile>& files) {
    MSITD_ASSIGN_OR_RETURN(position_, index_.Position());
    MSITD_ASSIGN_OR_RETURN(next_run_, index_.NextRunId());
    MSITD_ASSIGN_OR_RETURN(const NewestSegment newest, index_.Newest());
    // Earlier versions did not record the newest segment.
    newest_ = newest.segment_id == 0
                  ? UINT64_MAX
                  : std::max(newest.segment_id, position_.segment_id);
    ends_ = KnownEnds(files, index_.store_id());
    for (const auto& [number, end] : ends_) {
      if (number > newest_ && end > kSegmentHeaderBytes) {
        return NewerSegment(number, newest_);
      }
    }
    LogReplay replay(index_, env_);
    MSITD_RETURN_IF_ERROR(replay.Begin(files));
    const std::vector<uint64_t> all_awaited = replay.Awaited(files, newest);
    const uint64_t awaited =
        all_awaited.empty() ? UINT64_MAX : all_awaited.front();
    for (const SegmentFile& file : files) {
      if (ToNumber(file.id) < position_.segment_id ||
          file.IsForeignTo(index_.store_id())) {
        continue;
      }
      const absl::Status status = CheckSegment(file);
      if (status.ok()) continue;
      const bool is_needed = ToNumber(file.id) < awaited;
      if (is_needed || absl::IsDataLoss(status)) return status;
      StorageLogger()->warn(
          "cannot tell whether the index has lost what {} shows: {}", file.path,
          Message(status));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckSegment(const SegmentFile& file) {
    const uint64_t number = ToNumber(file.id);
    MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<File> reader,
                           env_.OpenForRead(file.path, /*direct=*/false));
    SegmentScanner::ScanRange place;
    place.store_id = index_.store_id();
    place.segment = file.id;
    place.end_bytes = file.size_bytes;
    if (number == position_.segment_id) {
      place.begin_bytes = std::max(position_.offset, kSegmentHeaderBytes);
    }
    if (const auto it = ends_.find(number); it != ends_.end()) {
      place.end_bytes = std::min(place.end_bytes, it->second);
    }
    place.frame_sequence_min = position_.next_frame_sequence;
    SegmentScanner scanner(*reader, place);
    std::optional<int64_t> first_receive_ns;
    while (true) {
      absl::StatusOr<ScanStep> step = scanner.Next();
      if (!step.ok()) return Annotate(step.status(), "read " + file.path);
      if (!step->frame.has_value()) return absl::OkStatus();
      const chunk::ChunkHeader& header = step->frame->chunk.header();
      if (header.run_id >= next_run_) {
        return MakeStatus(
            absl::StatusCode::kDataLoss,
            "{} has a frame of run {} with number {} at offset {}, but the "
            "next run of the index would have number {}: {}",
            SegmentFileName(file.id), step->frame->chunk.run(), header.run_id,
            step->frame->offset, next_run_, kLostEntries);
      }
      // All frames of one Append have the same time.
      if (!first_receive_ns) first_receive_ns = header.receive_time_ns;
      if (number > newest_ && header.receive_time_ns != *first_receive_ns) {
        return NewerSegment(number, newest_);
      }
    }
  }

  ChunkIndex& index_;
  Env& env_;
  LogPosition position_;
  uint64_t next_run_ = 1;
  uint64_t newest_ = 0;
  std::map<uint64_t, uint64_t> ends_;
};

}  // namespace

absl::Status CheckIndexIsWhole(ChunkIndex& index, Env& env,
                               const std::vector<SegmentFile>& files) {
  return WholeIndexCheck(index, env).Run(files);
}

}  // namespace msitd::storage
