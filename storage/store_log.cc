// SPDX-License-Identifier: Apache-2.0
#include "storage/store_log.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "protos/status/status.h"
#include "storage/env/logger.h"
#include "storage/face/upkeep.h"
#include "storage/store_files.h"

namespace msitd::storage {
namespace {

// Preparing fewer records takes less time than starting another thread.
constexpr size_t kAsideRecordsMin = 128;

// Chunks are accepted while this much is free in addition. This is less than
// the requirement of Probe, so that the state does not oscillate.
constexpr uint64_t kAppendRoomBytes = uint64_t{8} << 20;
static_assert(kAppendRoomBytes < ChunkLog::kProbeRoomBytes);
// With less free space than this, nothing is preallocated.
constexpr uint64_t kAmpleRoomBytes = uint64_t{256} << 20;

}  // namespace

StoreLog::StoreLog(const StoreOptions& options, Env& env, const Parts& parts,
                   absl::AnyInvocable<absl::Status() const> reopen_index)
    : options_(options),
      env_(env),
      segment_directory_(SegmentDirectory(options.directory)),
      reopen_index_(std::move(reopen_index)),
      index_(parts.index),
      reader_(parts.reader),
      room_(parts.room),
      appends_(parts.appends),
      figures_(parts.figures) {}

std::string StoreLog::PathOf(SegmentId id) const {
  return segment_directory_ + "/" + SegmentFileName(id);
}

absl::StatusOr<std::vector<LogFrame>> StoreLog::Admit(
    std::span<chunk::Chunk> chunks) {
  std::vector<LogFrame> frames;
  frames.reserve(chunks.size());
  const auto admit = [&]() -> absl::StatusOr<std::vector<RunId>> {
    std::vector<RunId> runs;
    StreamFilter filter(index_->streams());
    for (chunk::Chunk& chunk : chunks) {
      MSITD_ASSIGN_OR_RETURN(const RunBrief run,
                             index_->runs().Brief(chunk.run()));
      if (run.sealed) {
        return WithReason(MakeStatus(absl::StatusCode::kFailedPrecondition,
                                     "run {} is sealed", chunk.run()),
                          ErrorReason::kRunSealed);
      }
      MSITD_ASSIGN_OR_RETURN(
          const bool is_new,
          filter.Admit(StreamOf(chunk, run.id), chunk.header().chunk_sequence));
      if (!is_new) continue;
      frames.push_back({&chunk, run.id});
      runs.push_back(run.id);
    }
    return runs;
  };
  MSITD_RETURN_IF_ERROR(appends_.Enter(admit));
  return frames;
}

absl::Status StoreLog::Append(std::span<chunk::Chunk> chunks) {
  if (const absl::Status status = reopen_index_(); !status.ok()) {
    return ToAppendStatus(status);
  }
  const MutexLock lock(mu_);
  if (is_closed_) return absl::FailedPreconditionError("the store is closed");
  MSITD_RETURN_IF_ERROR(CheckIsWhole());
  if (const absl::Status status = ResumeIndex(); !status.ok()) {
    return ToAppendStatus(status);
  }
  const absl::StatusOr<std::vector<LogFrame>> admission = Admit(chunks);
  if (!admission.ok()) {
    const bool is_refusal = !Reason(admission.status()).empty();
    return is_refusal ? admission.status() : ToAppendStatus(admission.status());
  }
  const std::vector<LogFrame>& frames = *admission;
  if (frames.empty()) return absl::OkStatus();
  uint64_t bytes = 0;
  for (const LogFrame& frame : frames) bytes += frame.chunk->frame_bytes();
  absl::Status status = EnsureRoom(bytes);
  const bool has_room = status.ok();
  if (has_room) status = AppendAdmitted(frames);
  appends_.Leave();
  if (!has_room) {
    // Frees preallocated space, which may be all that the next append needs.
    EndSegment();
    return ToAppendStatus(status);
  }
  if (!status.ok()) {
    // No frame may follow the bytes after the last acknowledged byte, so the
    // segment ends there.
    StorageLogger()->error("append failed, segment given up: {}",
                           Message(status));
    EndSegment();
    return ToAppendStatus(status);
  }
  acknowledged_bytes_ = writer_->durable_bytes();
  return absl::OkStatus();
}

absl::Status StoreLog::EnsureRoom(uint64_t bytes) {
  const uint64_t unbacked =
      writer_ == nullptr ? bytes : writer_->UnbackedBytes(bytes);
  MSITD_RETURN_IF_ERROR(room_.EnsureFree(unbacked + kAppendRoomBytes));
  asks_ahead_ = room_.EnsureFree(unbacked + kAmpleRoomBytes).ok();
  if (index_->db().IsCongested()) {
    return absl::ResourceExhaustedError(
        "the disk has too little room to compact the index");
  }
  return absl::OkStatus();
}

absl::Status StoreLog::ResumeIndex() {
  if (!index_failed_ && !index_->db().has_failed()) return absl::OkStatus();
  const absl::Status status = index_->db().Resume();
  index_failed_ = !status.ok();
  failed_resume_count_ = status.ok() ? 0 : failed_resume_count_ + 1;
  return status;
}

absl::Status StoreLog::Probe() {
  if (const absl::Status status = reopen_index_(); !status.ok()) {
    return ToAppendStatus(status);
  }
  const MutexLock lock(mu_);
  if (is_closed_) return absl::FailedPreconditionError("the store is closed");
  MSITD_RETURN_IF_ERROR(CheckIsWhole());
  const auto probe = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    MSITD_RETURN_IF_ERROR(room_.EnsureFree(kProbeRoomBytes));
    MSITD_RETURN_IF_ERROR(ResumeIndex());
    MSITD_RETURN_IF_ERROR(EnsureRoom(0));
    if (writer_ != nullptr) return absl::OkStatus();
    MSITD_RETURN_IF_ERROR(BeginSegment());
    return writer_->Sync();
  };
  const absl::Status status = probe();
  if (status.ok()) return status;
  EndSegment();
  return ToAppendStatus(status);
}

absl::StatusOr<uint64_t> StoreLog::CommittedChunkCount(std::string_view run,
                                                       int32_t rank,
                                                       uint64_t stream_id) {
  MSITD_RETURN_IF_ERROR(CheckIsWhole());
  const absl::StatusOr<RunBrief> info = index_->runs().Brief(run);
  if (!info.ok()) return 0;
  return index_->streams().ChunkCount({info->id, rank, stream_id});
}

absl::StatusOr<bool> StoreLog::HasChunksOfOthers(std::string_view run,
                                                 int32_t rank,
                                                 uint64_t stream_id) {
  MSITD_RETURN_IF_ERROR(CheckIsWhole());
  const absl::StatusOr<RunBrief> info = index_->runs().Brief(run);
  if (!info.ok()) return false;
  return index_->streams().HasOtherStream({info->id, rank, stream_id});
}

absl::StatusOr<StreamCoverage> StoreLog::ReportCoverage(
    std::string_view run, int32_t rank, uint64_t stream_id,
    const StreamCoverage& coverage) {
  return index_->ReportCoverage(run, rank, stream_id, coverage);
}

absl::Status StoreLog::AppendAdmitted(std::span<const LogFrame> frames) {
  MSITD_RETURN_IF_ERROR(PlaceFrames(frames));
  AliasResolver aliases(index_.get(), frames);
  MSITD_RETURN_IF_ERROR(aliases.Resolve());
  MSITD_ASSIGN_OR_RETURN(FrameIndexer::Prepared prepared,
                         WriteAndPrepare(frames, aliases));
  MSITD_RETURN_IF_ERROR(RecordNewest());
  const absl::StatusOr<IndexOutcome> outcome =
      index_->frames().Commit(std::move(prepared));
  index_failed_ = !outcome.ok();
  MSITD_RETURN_IF_ERROR(outcome.status());
  for (const auto& [frame, count] : outcome->frame_conflicts) {
    frames[frame].chunk->set_conflict_count(count);
  }
  figures_.CountAppend(frames.size(), *outcome, writer_->id(),
                       writer_->durable_bytes());
  return absl::OkStatus();
}

absl::Status StoreLog::RecordNewest() {
  const NewestSegment newest{ToNumber(writer_->id()), false};
  if (newest == newest_) return absl::OkStatus();
  const absl::Status status = index_->SetNewest(newest);
  if (!status.ok()) {
    doubtful_newest_ = newest.segment_id;
    index_failed_ = true;
    return status;
  }
  doubtful_newest_ = 0;
  newest_before_ = std::exchange(newest_, newest);
  return absl::OkStatus();
}

absl::Status StoreLog::PlaceFrames(std::span<const LogFrame> frames) {
  if (writer_ != nullptr &&
      writer_->written_bytes() >= options_.segment_bytes_max) {
    EndSegment();
  }
  if (writer_ == nullptr) MSITD_RETURN_IF_ERROR(BeginSegment());
  writer_->set_asks_ahead(asks_ahead_);
  const int64_t now_ns = env_.NowNs();
  for (const LogFrame& frame : frames) {
    // The number is used up even if the write fails: a frame left by a failed
    // write must not share its number with another frame.
    writer_->Place(*frame.chunk, {frame.run, next_frame_sequence_++, now_ns});
  }
  return absl::OkStatus();
}

absl::Status StoreLog::WriteFrames(std::span<const LogFrame> frames,
                                   const AliasResolver& aliases) {
  MSITD_RETURN_IF_ERROR(writer_->Write(frames, [&aliases](chunk::Chunk& chunk) {
    aliases.StampSamples(chunk);
  }));
  return writer_->Sync();
}

absl::StatusOr<FrameIndexer::Prepared> StoreLog::WriteAndPrepare(
    std::span<const LogFrame> frames, const AliasResolver& aliases) {
  const LogPosition position{ToNumber(writer_->id()), writer_->placed_bytes(),
                             next_frame_sequence_};
  size_t record_count = 0;
  bool has_samples = false;
  for (const LogFrame& frame : frames) {
    record_count += frame.chunk->records().size();
    // Hashes of samples are stamped during the write, so such chunks cannot be
    // indexed concurrently.
    has_samples |= frame.chunk->kept() == chunk::Kept::kSample;
  }
  std::optional<absl::StatusOr<FrameIndexer::Prepared>> prepared;
  const auto prepare = [this, frames, position, &prepared] {
    prepared.emplace(index_->frames().Prepare(frames, position));
  };
  const bool is_aside = !has_samples && record_count >= kAsideRecordsMin;
  if (is_aside) preparer_.Start(prepare);
  const absl::Status written = WriteFrames(frames, aliases);
  if (is_aside) preparer_.Await();
  MSITD_RETURN_IF_ERROR(written);
  if (!is_aside) prepare();
  index_failed_ = !prepared->ok();
  return *std::move(prepared);
}

absl::Status StoreLog::BeginSegment() {
  const SegmentId id{next_segment_id_++};
  SegmentHeader header;
  header.store_id = index_->store_id();
  header.segment_id = ToNumber(id);
  header.previous_segment_id = previous_.segment_id;
  header.previous_end_bytes = previous_.end_bytes;
  header.create_time_ns = env_.NowNs();
  MSITD_ASSIGN_OR_RETURN(
      writer_,
      SegmentWriter::Create(env_, PathOf(id), header,
                            options_.segment_bytes_max, options_.direct_io));
  acknowledged_bytes_ = kSegmentHeaderBytes;
  segment_begin_boot_ns_ = env_.BootNs();
  return absl::OkStatus();
}

void StoreLog::EndSegment() {
  if (writer_ == nullptr) return;
  const SegmentId id = writer_->id();
  writer_->Seal(acknowledged_bytes_);
  writer_.reset();
  if (acknowledged_bytes_ > kSegmentHeaderBytes) {
    previous_ = {ToNumber(id), acknowledged_bytes_};
    return;
  }
  // No frame in the file was acknowledged. If the file remains, Open uses the
  // complete frames in it.
  reader_.Forget(id);
  // A start would wait for the file if the index named it. The file is
  // therefore kept if the entry cannot be reverted.
  if (doubtful_newest_ == ToNumber(id)) {
    if (!index_->SetNewest(newest_).ok()) return;
    doubtful_newest_ = 0;
  } else if (newest_.segment_id == ToNumber(id)) {
    if (!index_->SetNewest(newest_before_).ok()) return;
    newest_ = newest_before_;
  }
  if (const absl::Status status = env_.Remove(PathOf(id)); !status.ok()) {
    StorageLogger()->warn("segment {} of no use stays: {}", ToNumber(id),
                          Message(status));
  }
}

bool StoreLog::SealForRetention() {
  const MutexLock lock(mu_);
  if (writer_ == nullptr || acknowledged_bytes_ <= kSegmentHeaderBytes) {
    return false;
  }
  if (acknowledged_bytes_ < Upkeep::kSealBytesMin &&
      env_.BootNs() - segment_begin_boot_ns_ < Upkeep::kSealAgeMinNs) {
    return false;
  }
  EndSegment();
  return true;
}

std::optional<StoreLog::Extent> StoreLog::CurrentExtent() {
  const MutexLock lock(mu_);
  if (is_closed_) return std::nullopt;
  if (!awaited_.empty()) {
    // Later segments have frames that the index lacks.
    return Extent{std::max<uint64_t>(reached_.segment_id, 1), reached_.offset};
  }
  if (writer_ == nullptr) return Extent{next_segment_id_, 0};
  return Extent{ToNumber(writer_->id()), acknowledged_bytes_};
}

absl::Status StoreLog::Close() {
  const MutexLock lock(mu_);
  if (is_closed_) return absl::OkStatus();
  is_closed_ = true;
  EndSegment();
  absl::Status flushed = index_->db().Flush();
  // Resume also flushes if it succeeds.
  if (!flushed.ok() && index_->db().Resume().ok()) flushed = absl::OkStatus();
  if (flushed.ok() && awaited_.empty() && !newest_.is_indexed) {
    const NewestSegment newest{newest_.segment_id, true};
    flushed = index_->SetNewest(newest);
    if (flushed.ok()) newest_ = newest;
  }
  room_.KeepBallast();
  return flushed;
}

}  // namespace msitd::storage
