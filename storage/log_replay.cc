// SPDX-License-Identifier: Apache-2.0
#include "storage/log_replay.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "protos/status/status.h"
#include "storage/env/logger.h"
#include "storage/segment/segment_walk.h"

namespace msitd::storage {
namespace {

// Maximum size of the batches in which frames are indexed.
constexpr size_t kBatchRecordsMax = 8192;
constexpr uint64_t kBatchHeadBytesMax = uint64_t{16} << 20;

}  // namespace

absl::Status LogReplay::Begin(const std::vector<SegmentFile>& files) {
  MSITD_ASSIGN_OR_RETURN(start_, index_.Position());
  reached_ = start_;
  known_ends_ = KnownEnds(files, index_.store_id());
  return absl::OkStatus();
}

bool LogReplay::IsVoid(const SegmentFile& file) const {
  const uint64_t number = ToNumber(file.id);
  if (number <= start_.segment_id || known_ends_.contains(number)) return false;
  return file.size_bytes == 0 ||
         (file.header.has_value() && !file.IsForeignTo(index_.store_id()) &&
          file.size_bytes <= kSegmentHeaderBytes);
}

void LogReplay::Report(const Fault& fault) {
  has_news_ = true;
  ++(fault.is_damage ? counts_.corrupt : counts_.torn);
  StorageLogger()->log(
      fault.is_damage ? spdlog::level::err : spdlog::level::warn,
      "{} offset={} bytes={} what={}: {}", fault.file, fault.offset,
      fault.bytes, fault.is_damage ? "damaged" : "torn", fault.what);
}

std::vector<uint64_t> LogReplay::Awaited(const std::vector<SegmentFile>& files,
                                         const NewestSegment& newest) const {
  std::map<uint64_t, uint64_t> sizes;
  for (const SegmentFile& file : files) {
    if (!file.IsForeignTo(index_.store_id())) {
      sizes[ToNumber(file.id)] = file.size_bytes;
    }
  }
  // Minimum size of each file in bytes.
  std::map<uint64_t, uint64_t> ends;
  for (const auto& [number, end] : known_ends_) {
    const bool is_indexed =
        number < start_.segment_id ||
        (number == start_.segment_id && end <= start_.offset);
    if (!is_indexed) ends[number] = end;
  }
  if (!newest.is_indexed && newest.segment_id >= start_.segment_id) {
    uint64_t& end = ends[newest.segment_id];
    end = std::max(end, newest.segment_id == start_.segment_id
                            ? start_.offset
                            : kSegmentHeaderBytes);
  }
  std::vector<uint64_t> awaited;
  for (const auto& [number, end] : ends) {
    const auto size = sizes.find(number);
    if (size == sizes.end() || size->second < end) awaited.push_back(number);
  }
  return awaited;
}

absl::Status LogReplay::Add(const SegmentFile& file) {
  const auto logger = StorageLogger();
  if (file.IsForeignTo(index_.store_id())) {
    logger->warn("{} does not belong to this store and is left alone",
                 file.path);
    return absl::OkStatus();
  }
  if (IsVoid(file)) return absl::OkStatus();
  if (!file.header.has_value()) {
    logger->warn("{}: {}; it is searched for frames all the same", file.path,
                 file.header_error);
  }
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<File> reader,
                         env_.OpenForRead(file.path, /*direct=*/false));
  // Frames that are complete may so far exist in the page cache only.
  MSITD_RETURN_IF_ERROR(reader->Sync());
  torn_streams_.clear();
  const uint64_t number = ToNumber(file.id);
  SegmentScanner::ScanRange place;
  place.store_id = index_.store_id();
  place.segment = file.id;
  place.begin_bytes = number == start_.segment_id
                          ? std::max(start_.offset, kSegmentHeaderBytes)
                          : kSegmentHeaderBytes;
  place.end_bytes = file.size_bytes;
  place.frame_sequence_min = reached_.next_frame_sequence;
  std::optional<uint64_t> known_end;
  if (const auto it = known_ends_.find(number); it != known_ends_.end()) {
    known_end = it->second;
  }
  MSITD_ASSIGN_OR_RETURN(
      SegmentWalk walk,
      SegmentWalk::Begin(*reader, place, known_end,
                         number == durable_.segment_id ? durable_.offset : 0));
  using Kind = SegmentWalk::Step::Kind;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(SegmentWalk::Step step, walk.Next());
    if (step.kind == Kind::kEnd) break;
    if (step.kind == Kind::kFrame) {
      has_news_ = true;
      MSITD_RETURN_IF_ERROR(
          AddFrame(*reader, *std::move(step.frame), step.is_durable));
      continue;
    }
    Report({file.path, step.gap.offset, step.gap.bytes,
            step.kind == Kind::kDamage, step.gap.reason});
  }
  return Commit();
}

absl::Status LogReplay::AddFrame(File& file, FoundFrame frame,
                                 bool is_durable) {
  const chunk::ChunkHeader& header = frame.chunk.header();
  reached_.next_frame_sequence = header.frame_sequence + 1;
  const StreamKey stream = StreamOf(frame.chunk, RunId{header.run_id});
  bool is_torn = !is_durable && torn_streams_.contains(stream);
  if (!is_durable && !is_torn) {
    const absl::Status whole = VerifyPayload(file, frame, payload_);
    if (!whole.ok() && !absl::IsDataLoss(whole)) return whole;
    is_torn = !whole.ok();
  }
  if (is_torn) {
    ++counts_.torn;
    torn_streams_.insert(stream);
    StorageLogger()->warn("torn frame segment={} offset={} run={}",
                          header.segment_id, frame.offset, frame.chunk.run());
    return absl::OkStatus();
  }
  reached_.segment_id = header.segment_id;
  reached_.offset = frame.end();
  absl::StatusOr<RunBrief> run = index_.runs().BriefById(RunId{header.run_id});
  if (!run.ok()) return AddGoneFrame(header.segment_id, RunId{header.run_id});
  MSITD_ASSIGN_OR_RETURN(const bool is_new,
                         filter_.Admit(stream, header.chunk_sequence));
  if (!is_new) return absl::OkStatus();
  record_count_ += frame.chunk.records().size();
  head_bytes_ += frame.chunk.head().size();
  frames_.push_back(std::move(frame));
  runs_.push_back(*std::move(run));
  if (record_count_ >= kBatchRecordsMax || head_bytes_ >= kBatchHeadBytesMax) {
    return Commit();
  }
  return absl::OkStatus();
}

absl::Status LogReplay::AddGoneFrame(uint64_t segment, RunId run) {
  // The segments of an emptied run were durably marked dead.
  if (!index_.gone().IsHidden(run)) return absl::OkStatus();
  return index_.segments().AddUser(SegmentId{segment}, run);
}

absl::Status LogReplay::Commit() {
  if (frames_.empty()) return absl::OkStatus();
  std::vector<LogFrame> frames;
  for (size_t i = 0; i < frames_.size(); ++i) {
    frames.push_back({&frames_[i].chunk, runs_[i].id, !runs_[i].sealed});
  }
  MSITD_ASSIGN_OR_RETURN(FrameIndexer::Prepared prepared,
                         index_.frames().Prepare(frames, reached_));
  MSITD_RETURN_IF_ERROR(index_.frames().Commit(std::move(prepared)).status());
  counts_.recovered += frames.size();
  frames_.clear();
  runs_.clear();
  record_count_ = 0;
  head_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status LogReplay::Finish() {
  if (!has_news_) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(index_.Advance(reached_));
  MSITD_RETURN_IF_ERROR(index_.db().Flush());
  StorageLogger()->info("recovered frames={} torn={} corrupt={}",
                        counts_.recovered, counts_.torn, counts_.corrupt);
  return absl::OkStatus();
}

}  // namespace msitd::storage
