// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "protos/status/status.h"
#include "storage/env/logger.h"
#include "storage/segment/segment_walk.h"
#include "storage/store_impl.h"

namespace msitd::storage {
namespace {

// After this many failed attempts in a row to resume the index, it is opened
// anew.
constexpr int kFailedResumesMax = 3;

// Frames are put into the index in batches no larger than these.
constexpr size_t kBatchRecordsMax = 8192;
constexpr uint64_t kBatchHeadBytesMax = uint64_t{16} << 20;

}  // namespace

struct StoreImpl::Replay {
  explicit Replay(StreamTable& streams) : filter(streams) {}

  // How much of the log was in the index when this began, and how much has been
  // read since.
  LogPosition start;
  LogPosition reached;
  std::map<uint64_t, uint64_t> known_ends;
  StreamFilter filter;
  // Streams of which a chunk was torn in the present segment. Their later
  // chunks there were never acknowledged, and the producer sends again from the
  // torn one on. Other streams go on, so a producer that rewrote its memory
  // harms nobody else.
  std::set<StreamKey> torn_streams;

  // Frames to be put into the index.
  std::vector<FoundFrame> frames;
  std::vector<RunBrief> runs;
  size_t record_count = 0;
  uint64_t head_bytes = 0;

  AlignedBuffer payload;
  uint64_t recovered_count = 0;
  uint64_t torn_count = 0;
  uint64_t corrupt_count = 0;
  bool has_news = false;

  // True if the file holds no frame and never held an acknowledged one.
  bool IsVoid(const SegmentFile& file, uint64_t store_id) const {
    const uint64_t number = ToNumber(file.id);
    if (number <= start.segment_id || known_ends.contains(number)) return false;
    return file.size_bytes == 0 ||
           (file.header.has_value() && !file.IsForeignTo(store_id) &&
            file.size_bytes <= kSegmentHeaderBytes);
  }
};

absl::Status StoreImpl::Recover() {
  const MutexLock retain_lock(retain_mu_);
  const MutexLock lock(append_mu_);
  store_id_ = index_->store_id();
  return BringUp();
}

absl::Status StoreImpl::ReopenLostIndex() {
  {
    const MutexLock lock(append_mu_);
    if (failed_resume_count_ < kFailedResumesMax) return absl::OkStatus();
  }
  const MutexLock retain_lock(retain_mu_);
  const MutexLock lock(append_mu_);
  if (is_closed_ || failed_resume_count_ < kFailedResumesMax) {
    return absl::OkStatus();
  }
  EndSegment();
  const auto open = [&] {
    return OpenIndex(options_, env_, *ballast_, /*creates=*/false);
  };
  const auto finish = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_,
                                                          append_mu_) {
    // First of all, before anything can fail: the index that the old ones used
    // is gone.
    retainer_.emplace(index_.get(), env_, segment_directory_);
    sharer_.emplace(index_.get(), env_, reader_, segment_directory_);
    verifier_.emplace(index_.get(), env_, segment_directory_,
                      options_.direct_io);
    segment_watch_.emplace(index_.get(), env_, segment_directory_);
    age_clock_.emplace(index_.get(), env_);
    name_sweep_.emplace(index_.get().db(), index_.get().names());
    sweep_pass_.reset();
    has_dead_segments_ = true;
    if (index_->store_id() != store_id_) {
      return absl::DataLossError("the index is of another store now");
    }
    return BringUp();
  };
  const absl::Status status = index_.Reopen(open, finish);
  if (!status.ok()) {
    StorageLogger()->error("the index cannot be opened anew: {}",
                           Message(status));
    return Annotate(status, "open index anew");
  }
  StorageLogger()->info("the index was opened anew");
  index_failed_ = false;
  failed_resume_count_ = 0;
  return absl::OkStatus();
}

absl::Status StoreImpl::BringUp() {
  age_clock_->Begin();
  MSITD_ASSIGN_OR_RETURN(const std::vector<SegmentFile> files,
                         ListSegments(env_, segment_directory_));
  // Files that are found count from here on, and the process that made them may
  // have ended before their names were durable.
  MSITD_RETURN_IF_ERROR(env_.SyncDirectory(segment_directory_));
  Replay replay(index_->streams());
  MSITD_ASSIGN_OR_RETURN(replay.start, index_->Position());
  replay.reached = replay.start;
  replay.known_ends = KnownEnds(files, index_->store_id());
  next_segment_id_ = std::max(next_segment_id_, replay.start.segment_id + 1);
  previous_ = {replay.start.segment_id, replay.start.offset};
  for (const SegmentFile& file : files) {
    next_segment_id_ = std::max(next_segment_id_, ToNumber(file.id) + 1);
    if (ToNumber(file.id) >= replay.start.segment_id) {
      if (absl::Status status = ReplaySegment(file, replay); !status.ok()) {
        return Annotate(status, "recover " + file.path);
      }
    }
    const MutexLock stats_lock(stats_mu_);
    segment_sizes_[ToNumber(file.id)] = file.disk_bytes;
  }
  CountLostSegments(files, replay);
  return FinishReplay(files, replay);
}

void StoreImpl::CountLostSegments(const std::vector<SegmentFile>& files,
                                  Replay& replay) {
  std::set<uint64_t> numbers;
  for (const SegmentFile& file : files) numbers.insert(ToNumber(file.id));
  for (const auto& [number, end] : replay.known_ends) {
    const bool is_in_index =
        number < replay.start.segment_id ||
        (number == replay.start.segment_id && end <= replay.start.offset);
    if (is_in_index || numbers.contains(number)) continue;
    ++replay.corrupt_count;
    replay.has_news = true;
    StorageLogger()->error(
        "{} is missing, and the index does not have its frames: what was "
        "recorded there is lost",
        PathOf(SegmentId{number}));
  }
}

absl::Status StoreImpl::ReplaySegment(const SegmentFile& file, Replay& replay) {
  const auto logger = StorageLogger();
  if (file.IsForeignTo(index_->store_id())) {
    logger->warn("{} does not belong to this store and is left alone",
                 file.path);
    return absl::OkStatus();
  }
  if (replay.IsVoid(file, index_->store_id())) return absl::OkStatus();
  if (!file.header.has_value()) {
    logger->warn("{}: {}; it is searched for frames all the same", file.path,
                 file.header_error);
  }
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<File> reader,
                         env_.OpenForRead(file.path, /*direct=*/false));
  // Frames that are whole may so far lie in the page cache only.
  MSITD_RETURN_IF_ERROR(reader->Sync());
  replay.torn_streams.clear();
  const uint64_t number = ToNumber(file.id);
  const bool is_start = number == replay.start.segment_id;
  SegmentScanner::Place place;
  place.store_id = index_->store_id();
  place.segment = file.id;
  place.begin_bytes = is_start
                          ? std::max(replay.start.offset, kSegmentHeaderBytes)
                          : kSegmentHeaderBytes;
  place.end_bytes = file.size_bytes;
  place.frame_sequence_min = replay.reached.next_frame_sequence;
  std::optional<uint64_t> known_end;
  if (const auto it = replay.known_ends.find(number);
      it != replay.known_ends.end()) {
    known_end = it->second;
  }
  MSITD_ASSIGN_OR_RETURN(
      SegmentWalk walk,
      SegmentWalk::Begin(*reader, place, known_end, /*durable_min=*/0));
  using Kind = SegmentWalk::Step::Kind;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(SegmentWalk::Step step, walk.Next());
    if (step.kind == Kind::kEnd) break;
    replay.has_news = true;
    if (step.kind == Kind::kFrame) {
      MSITD_RETURN_IF_ERROR(ReplayFrame(*reader, *std::move(step.frame),
                                        step.is_durable, replay));
      continue;
    }
    const bool is_damage = step.kind == Kind::kDamage;
    ++(is_damage ? replay.corrupt_count : replay.torn_count);
    logger->log(is_damage ? spdlog::level::err : spdlog::level::warn,
                "{} offset={} bytes={} what={}: {}", file.path, step.gap.offset,
                step.gap.bytes, is_damage ? "damaged" : "torn",
                step.gap.reason);
  }
  return CommitReplay(replay);
}

absl::Status StoreImpl::ReplayFrame(File& file, FoundFrame frame,
                                    bool is_durable, Replay& replay) {
  const chunk::ChunkHeader& header = frame.chunk.header();
  replay.reached.next_frame_sequence = header.frame_sequence + 1;
  const StreamKey stream = StreamOf(frame.chunk, RunId{header.run_id});
  bool is_torn = !is_durable && replay.torn_streams.contains(stream);
  if (!is_durable && !is_torn) {
    const absl::Status whole = VerifyPayload(file, frame, replay.payload);
    if (!whole.ok() && !absl::IsDataLoss(whole)) return whole;
    is_torn = !whole.ok();
  }
  if (is_torn) {
    ++replay.torn_count;
    replay.torn_streams.insert(stream);
    StorageLogger()->warn("torn frame segment={} offset={} run={}",
                          header.segment_id, frame.offset, frame.chunk.run());
    return absl::OkStatus();
  }
  replay.reached.segment_id = header.segment_id;
  replay.reached.offset = frame.end();
  absl::StatusOr<RunBrief> run = index_->runs().BriefById(RunId{header.run_id});
  if (!run.ok()) return NoteGoneFrame(header.segment_id, RunId{header.run_id});
  MSITD_ASSIGN_OR_RETURN(const bool is_new,
                         replay.filter.Admit(stream, header.chunk_sequence));
  if (!is_new) return absl::OkStatus();
  replay.record_count += frame.chunk.records().size();
  replay.head_bytes += frame.chunk.head().size();
  replay.frames.push_back(std::move(frame));
  replay.runs.push_back(*std::move(run));
  if (replay.record_count >= kBatchRecordsMax ||
      replay.head_bytes >= kBatchHeadBytesMax) {
    return CommitReplay(replay);
  }
  return absl::OkStatus();
}

absl::Status StoreImpl::NoteGoneFrame(uint64_t segment, RunId run) {
  // The segments of an emptied run were durably marked dead.
  if (!index_->gone().IsHidden(run)) return absl::OkStatus();
  return index_->segments().AddUser(SegmentId{segment}, run);
}

absl::Status StoreImpl::CommitReplay(Replay& replay) {
  if (replay.frames.empty()) return absl::OkStatus();
  std::vector<IndexedFrame> frames;
  for (size_t i = 0; i < replay.frames.size(); ++i) {
    frames.push_back(
        {&replay.frames[i].chunk, replay.runs[i].id, !replay.runs[i].sealed});
  }
  MSITD_ASSIGN_OR_RETURN(FrameIndexer::Prepared prepared,
                         index_->frames().Prepare(frames, replay.reached));
  MSITD_RETURN_IF_ERROR(index_->frames().Commit(std::move(prepared)).status());
  replay.recovered_count += frames.size();
  replay.frames.clear();
  replay.runs.clear();
  replay.record_count = 0;
  replay.head_bytes = 0;
  return absl::OkStatus();
}

absl::Status StoreImpl::FinishReplay(const std::vector<SegmentFile>& files,
                                     Replay& replay) {
  next_frame_sequence_ =
      std::max(next_frame_sequence_, replay.reached.next_frame_sequence);
  previous_ = {replay.reached.segment_id, replay.reached.offset};
  if (replay.has_news) {
    MSITD_RETURN_IF_ERROR(index_->Advance(replay.reached));
    MSITD_RETURN_IF_ERROR(index_->db().Flush());
    StorageLogger()->info("recovered frames={} torn={} corrupt={}",
                          replay.recovered_count, replay.torn_count,
                          replay.corrupt_count);
  }
  {
    const MutexLock lock(stats_mu_);
    stats_.recovered_frame_count += replay.recovered_count;
    stats_.torn_frame_count += replay.torn_count;
    stats_.corrupt_frame_count += replay.corrupt_count;
  }
  std::map<uint64_t, uint64_t> ends = replay.known_ends;
  uint64_t& last_end = ends[replay.reached.segment_id];
  last_end = std::max(last_end, replay.reached.offset);
  // A store that cannot say what is missing still has everything else.
  if (const absl::Status begun = segment_watch_->Begin(files, ends);
      !begun.ok()) {
    StorageLogger()->error("cannot tell which segments are missing: {}",
                           Message(begun));
  }
  {
    const MutexLock lock(stats_mu_);
    stats_.missing = segment_watch_->Missing();
  }
  TidySegments(files, replay);
  RemoveDeadSegments();
  if (const absl::Status room = room_.EnsureFree(0); !room.ok()) {
    StorageLogger()->warn("chunks are refused for now: {}", Message(room));
  }
  return absl::OkStatus();
}

void StoreImpl::TidySegments(const std::vector<SegmentFile>& files,
                             const Replay& replay) {
  for (const SegmentFile& file : files) {
    const uint64_t number = ToNumber(file.id);
    if (replay.IsVoid(file, index_->store_id())) {
      if (!env_.Remove(file.path).ok()) continue;
      const MutexLock lock(stats_mu_);
      segment_sizes_.erase(number);
      continue;
    }
    const bool is_last = number == replay.reached.segment_id &&
                         !replay.known_ends.contains(number);
    if (!is_last || file.IsForeignTo(index_->store_id()) ||
        replay.reached.offset > file.size_bytes) {
      continue;
    }
    // Gives back preallocated room as well. If the tail stays, the header of
    // the next segment tells it from the log.
    const auto writer = env_.OpenForWrite(file.path, /*direct=*/false);
    if (!writer.ok()) continue;
    (*writer)->Truncate(replay.reached.offset).IgnoreError();
    // Bytes that were given up before are holes.
    const absl::StatusOr<uint64_t> allocated = (*writer)->AllocatedBytes();
    const MutexLock lock(stats_mu_);
    segment_sizes_[number] = std::min(
        replay.reached.offset, allocated.value_or(replay.reached.offset));
  }
}

}  // namespace msitd::storage
