// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "protos/status/status.h"
#include "storage/env/logger.h"
#include "storage/store_impl.h"

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

absl::StatusOr<std::vector<StoreImpl::Admitted>> StoreImpl::Admit(
    std::span<chunk::Chunk> chunks) {
  std::vector<Admitted> admitted;
  admitted.reserve(chunks.size());
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
      admitted.push_back({&chunk, run.id});
      runs.push_back(run.id);
    }
    return runs;
  };
  MSITD_RETURN_IF_ERROR(appends_.Enter(admit));
  return admitted;
}

absl::Status StoreImpl::Append(std::span<chunk::Chunk> chunks) {
  if (const absl::Status status = ReopenLostIndex(); !status.ok()) {
    return ToAppendStatus(status);
  }
  const MutexLock lock(append_mu_);
  if (is_closed_) return absl::FailedPreconditionError("the store is closed");
  MSITD_RETURN_IF_ERROR(CheckLogIsWhole());
  if (const absl::Status status = ResumeIndex(); !status.ok()) {
    return ToAppendStatus(status);
  }
  const absl::StatusOr<std::vector<Admitted>> admission = Admit(chunks);
  if (!admission.ok()) {
    const bool is_refusal = !Reason(admission.status()).empty();
    return is_refusal ? admission.status() : ToAppendStatus(admission.status());
  }
  const std::vector<Admitted>& admitted = *admission;
  if (admitted.empty()) return absl::OkStatus();
  uint64_t bytes = 0;
  for (const Admitted& one : admitted) bytes += one.chunk->frame_bytes();
  absl::Status status = EnsureRoom(bytes);
  const bool has_room = status.ok();
  if (has_room) status = AppendAdmitted(admitted);
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

absl::Status StoreImpl::EnsureRoom(uint64_t bytes) {
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

absl::Status StoreImpl::ResumeIndex() {
  if (!index_failed_ && !index_->db().has_failed()) return absl::OkStatus();
  const absl::Status status = index_->db().Resume();
  index_failed_ = !status.ok();
  failed_resume_count_ = status.ok() ? 0 : failed_resume_count_ + 1;
  return status;
}

absl::Status StoreImpl::Probe() {
  if (const absl::Status status = ReopenLostIndex(); !status.ok()) {
    return ToAppendStatus(status);
  }
  const MutexLock lock(append_mu_);
  if (is_closed_) return absl::FailedPreconditionError("the store is closed");
  MSITD_RETURN_IF_ERROR(CheckLogIsWhole());
  const auto probe = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_) {
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

absl::StatusOr<uint64_t> StoreImpl::CommittedChunkCount(std::string_view run,
                                                        int32_t rank,
                                                        uint64_t stream_id) {
  MSITD_RETURN_IF_ERROR(CheckLogIsWhole());
  const absl::StatusOr<RunBrief> info = index_->runs().Brief(run);
  if (!info.ok()) return 0;
  return index_->streams().ChunkCount({info->id, rank, stream_id});
}

absl::StatusOr<bool> StoreImpl::HasChunksOfOthers(std::string_view run,
                                                  int32_t rank,
                                                  uint64_t stream_id) {
  MSITD_RETURN_IF_ERROR(CheckLogIsWhole());
  const absl::StatusOr<RunBrief> info = index_->runs().Brief(run);
  if (!info.ok()) return false;
  return index_->streams().HasOtherStream({info->id, rank, stream_id});
}

absl::StatusOr<StreamCoverage> StoreImpl::ReportCoverage(
    std::string_view run, int32_t rank, uint64_t stream_id,
    const StreamCoverage& coverage) {
  return index_->ReportCoverage(run, rank, stream_id, coverage);
}

absl::Status StoreImpl::AppendAdmitted(std::span<const Admitted> admitted) {
  std::vector<IndexedFrame> frames;
  frames.reserve(admitted.size());
  for (const Admitted& one : admitted) {
    frames.push_back({one.chunk, one.run, true});
  }
  MSITD_RETURN_IF_ERROR(PlaceFrames(admitted));
  std::vector<AliasResolver::Frame> placed;
  placed.reserve(admitted.size());
  for (const Admitted& one : admitted) placed.push_back({one.chunk, one.run});
  AliasResolver aliases(index_.get(), std::move(placed));
  MSITD_RETURN_IF_ERROR(aliases.Resolve());
  MSITD_ASSIGN_OR_RETURN(FrameIndexer::Prepared prepared,
                         WriteAndPrepare(admitted, frames, aliases));
  MSITD_RETURN_IF_ERROR(RecordNewest());
  const absl::StatusOr<IndexOutcome> outcome =
      index_->frames().Commit(std::move(prepared));
  index_failed_ = !outcome.ok();
  MSITD_RETURN_IF_ERROR(outcome.status());
  for (const auto& [frame, count] : outcome->frame_conflicts) {
    admitted[frame].chunk->set_conflict_count(count);
  }
  const MutexLock lock(stats_mu_);
  stats_.committed_chunk_count += frames.size();
  stats_.committed_record_count += outcome->record_count;
  stats_.committed_bytes += outcome->payload_bytes;
  stats_.duplicate_count += outcome->duplicate_count;
  stats_.conflict_count += outcome->conflict_count;
  stats_.checked_digest_count += outcome->checked_digest_count;
  stats_.false_digest_count += outcome->false_digest_count;
  segment_sizes_[ToNumber(writer_->id())] = writer_->durable_bytes();
  return absl::OkStatus();
}

absl::Status StoreImpl::RecordNewest() {
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

absl::Status StoreImpl::PlaceFrames(std::span<const Admitted> admitted) {
  if (writer_ != nullptr &&
      writer_->written_bytes() >= options_.segment_bytes_max) {
    EndSegment();
  }
  if (writer_ == nullptr) MSITD_RETURN_IF_ERROR(BeginSegment());
  writer_->set_asks_ahead(asks_ahead_);
  const int64_t now_ns = env_.NowNs();
  for (const Admitted& one : admitted) {
    // The number is used up even if the write fails: a frame left by a failed
    // write must not share its number with another frame.
    writer_->Place(*one.chunk, {one.run, next_frame_sequence_++, now_ns});
  }
  return absl::OkStatus();
}

absl::Status StoreImpl::WriteFrames(std::span<const Admitted> admitted,
                                    const AliasResolver& aliases) {
  std::vector<chunk::Chunk*> chunks;
  chunks.reserve(admitted.size());
  for (const Admitted& one : admitted) chunks.push_back(one.chunk);
  MSITD_RETURN_IF_ERROR(writer_->Write(chunks, [&aliases](chunk::Chunk& chunk) {
    aliases.StampSamples(chunk);
  }));
  return writer_->Sync();
}

absl::StatusOr<FrameIndexer::Prepared> StoreImpl::WriteAndPrepare(
    std::span<const Admitted> admitted, std::span<const IndexedFrame> frames,
    const AliasResolver& aliases) {
  const LogPosition position{ToNumber(writer_->id()), writer_->placed_bytes(),
                             next_frame_sequence_};
  size_t record_count = 0;
  bool has_samples = false;
  for (const Admitted& one : admitted) {
    record_count += one.chunk->records().size();
    // Hashes of samples are stamped during the write, so such chunks cannot be
    // indexed concurrently.
    has_samples |= one.chunk->kept() == chunk::Kept::kSample;
  }
  std::optional<absl::StatusOr<FrameIndexer::Prepared>> prepared;
  const auto prepare = [this, frames, position, &prepared] {
    prepared.emplace(index_->frames().Prepare(frames, position));
  };
  const bool is_aside = !has_samples && record_count >= kAsideRecordsMin;
  if (is_aside) preparer_.Start(prepare);
  const absl::Status written = WriteFrames(admitted, aliases);
  if (is_aside) preparer_.Await();
  MSITD_RETURN_IF_ERROR(written);
  if (!is_aside) prepare();
  index_failed_ = !prepared->ok();
  return *std::move(prepared);
}

absl::Status StoreImpl::BeginSegment() {
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

void StoreImpl::EndSegment() {
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

}  // namespace msitd::storage
