// SPDX-License-Identifier: Apache-2.0
#include "storage/check/store_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "protos/chunk/frame_payload.h"
#include "protos/status/status.h"
#include "storage/index/index_audit.h"
#include "storage/index/record_entry.h"
#include "storage/log_replay.h"
#include "storage/segment/segment_reader.h"
#include "storage/whole_index.h"

namespace msitd::storage {
namespace {

// Returns a number that identifies a location in a segment and the bytes there.
uint64_t Fingerprint(uint64_t segment, uint64_t offset, const ContentHash& hash,
                     uint64_t sample_hash) {
  const std::array<uint64_t, 5> fields = {segment, offset, hash.low, hash.high,
                                          sample_hash};
  return chunk::HashBytes(std::as_bytes(std::span(fields))).low;
}

// Returns which component may have changed bytes of the frame.
StoreProblem::Cause CauseOf(const chunk::Chunk& chunk) {
  const uint32_t flags = chunk.header().flags;
  return (flags & chunk::kOwnMemoryFlag) != 0
             ? StoreProblem::Cause::kDisk
             : StoreProblem::Cause::kProducerOrDisk;
}

const char* MemoryOf(const chunk::Chunk& chunk) {
  const uint32_t flags = chunk.header().flags;
  if ((flags & chunk::kOwnMemoryFlag) != 0) return "own";
  return (flags & chunk::kSharedMemoryFlag) != 0 ? "shared" : "unknown";
}

std::string Explain(StoreProblem::Cause cause, const chunk::Chunk& chunk) {
  if (cause == StoreProblem::Cause::kDisk) {
    return "bit rot: msitd hashed its own copy and wrote that";
  }
  const bool is_known = (chunk.header().flags & chunk::kSharedMemoryFlag) != 0;
  return fmt::format(
      "changed by the producer after they were hashed, or on the disk: they "
      "came from {} rank {} of run {}",
      is_known ? "memory shared with" : "what may have been memory of",
      chunk.header().rank, chunk.run());
}

class StoreCheck {
 public:
  StoreCheck(StoreView& store,
             const std::function<void(const StoreProblem&)>& report)
      : store_(store), report_(report), position_(store.position()) {}

  absl::StatusOr<StoreCheckReport> Run();

 private:
  absl::Status CheckSegment(const SegmentFile& segment);
  absl::Status CheckFrame(const SegmentFile& segment, File& file,
                          const FoundFrame& frame);
  // `place` is the location of the record, or of its sample, in payload_.
  absl::Status CheckRecord(const SegmentFile& segment, const FoundFrame& frame,
                           const chunk::RecordDescriptor& record,
                           const chunk::FramePayload::RecordBytes& place);
  // True if the producer may have received the acknowledgment of the frame.
  absl::StatusOr<bool> IsAcknowledged(const chunk::Chunk& chunk,
                                      const RunBrief& run);
  absl::Status CheckEntry(const AuditedEntry& entry);
  // Reports that the index has lost entries.
  absl::Status CheckIsWhole();
  // Reports segments that the next start of the daemon would wait for.
  absl::Status CheckAwaited();
  // True if bytes with this fingerprint were found intact. Must be called after
  // all frames have been checked.
  bool IsSound(uint64_t fingerprint) const {
    return std::binary_search(sound_.begin(), sound_.end(), fingerprint);
  }
  // Location of a problem. `run` is 0 for a problem of the file itself.
  struct ProblemPlace {
    SegmentId segment{};
    RunId run{};
    uint64_t offset = 0;
    // Size of the part, if the problem is about one.
    uint64_t bytes = 0;
    ContentHash hash{};
  };
  // Returns the location of the bytes if they are shared with a later record.
  static absl::StatusOr<std::optional<BytePlace>> FindShared(
      StoreView& store, const ProblemPlace& place);
  // True if, according to a later view of a live store, the bytes at a location
  // of a run need not exist.
  static bool HasGone(StoreView& later, const ProblemPlace& place);
  // True if, in a later view, the bytes are shared and intact, or no longer
  // exist.
  absl::StatusOr<bool> AreShared(StoreView& later, const ProblemPlace& place);
  // A frame whose bytes do not match their hash, and its stream.
  struct BadFrame {
    StreamKey stream;
    BytePlace place;

    bool operator==(const BadFrame& other) const = default;
  };
  struct Suspicion {
    ProblemPlace place;
    StoreProblem problem;
    std::optional<BadFrame> frame;
  };
  void Report(std::string file, ProblemPlace place, std::string what,
              StoreProblem::Cause cause = StoreProblem::Cause::kOther,
              std::optional<BadFrame> frame = std::nullopt);
  void Count(const Suspicion& found);
  // Adds the streams with mismatches to the report.
  void ListMismatches();
  // Reports those suspected problems of a live view that a later view confirms.
  absl::Status ReportLasting();
  // Calls ReportLasting before there are too many suspected problems.
  absl::Status BoundSuspected();

  StoreView& store_;
  const std::function<void(const StoreProblem&)>& report_;
  StoreCheckReport counts_;
  const LogPosition position_;
  AlignedBuffer payload_;
  std::unordered_set<uint64_t> segments_;  // Existing segments.
  std::map<StreamKey, StreamMismatch> streams_;
  std::optional<BadFrame> last_bad_frame_;  // The last frame that was counted.
  // Fingerprints of records with intact bytes; sorted before they are searched.
  std::vector<uint64_t> sound_;
  // Fingerprints of locations that were reported with their frame.
  std::unordered_set<uint64_t> reported_;
  // For a live view: findings that may prove not to be problems.
  std::vector<Suspicion> suspected_;
};

void StoreCheck::Report(std::string file, ProblemPlace place, std::string what,
                        StoreProblem::Cause cause,
                        std::optional<BadFrame> frame) {
  Suspicion found{place,
                  {std::move(file), place.offset, std::move(what), cause},
                  std::move(frame)};
  if (store_.is_live()) {
    suspected_.push_back(std::move(found));
    return;
  }
  Count(found);
}

void StoreCheck::Count(const Suspicion& found) {
  using Cause = StoreProblem::Cause;
  const StoreProblem& problem = found.problem;
  // The records of a frame are processed consecutively, so comparing with the
  // last bad frame counts each frame once.
  if (found.frame.has_value() && found.frame != last_bad_frame_) {
    ++streams_[found.frame->stream].mismatch_count;
    last_bad_frame_ = found.frame;
  }
  ++counts_.problem_count;
  counts_.disk_count += problem.cause == Cause::kDisk ? 1 : 0;
  counts_.producer_or_disk_count +=
      problem.cause == Cause::kProducerOrDisk ? 1 : 0;
  report_(problem);
}

void StoreCheck::ListMismatches() {
  if (counts_.problem_count == 0) return;
  for (auto& [key, stream] : streams_) {
    if (stream.mismatch_count == 0) continue;
    counts_.mismatches.push_back(std::move(stream));
  }
}

absl::StatusOr<std::optional<BytePlace>> StoreCheck::FindShared(
    StoreView& store, const ProblemPlace& place) {
  MSITD_ASSIGN_OR_RETURN(
      std::optional<BytePlace> found,
      store.index().shared().Find({place.run, place.hash, place.bytes}));
  if (found.has_value() &&
      *found <= BytePlace{ToNumber(place.segment), place.offset}) {
    found.reset();
  }
  return found;
}

bool StoreCheck::HasGone(StoreView& later, const ProblemPlace& place) {
  return !later.index().runs().BriefById(place.run).ok() ||
         later.index().expiry().IsExpired(place.segment, place.run,
                                          place.offset);
}

absl::StatusOr<bool> StoreCheck::AreShared(StoreView& later,
                                           const ProblemPlace& place) {
  if (place.bytes == 0) return false;
  PartInfo part{.place = {ToNumber(place.segment), place.offset},
                .bytes = place.bytes,
                .hash = place.hash};
  StoreView* view = &later;
  std::optional<StoreView> again;
  for (int i = 0; i < StoreView::kLiveAttemptsMax; ++i) {
    MSITD_ASSIGN_OR_RETURN(
        const auto found,
        FindShared(*view, {SegmentId{part.place.file}, place.run,
                           part.place.offset, part.bytes, part.hash}));
    if (!found.has_value()) return false;
    part.place = {found->segment_id, found->offset};
    SegmentReader reader(view->env(), view->segment_directory(),
                         /*direct=*/false);
    if (reader.Read(part, payload_).ok()) return true;
    // The bytes may have moved since the view was created.
    MSITD_ASSIGN_OR_RETURN(StoreView next, store_.Again());
    again.emplace(std::move(next));
    view = &*again;
    if (HasGone(*view, place)) return true;
  }
  return false;
}

absl::Status StoreCheck::ReportLasting() {
  if (suspected_.empty()) return absl::OkStatus();
  MSITD_ASSIGN_OR_RETURN(StoreView now, store_.Again());
  std::unordered_set<uint64_t> segments;
  for (const SegmentFile& file : now.segments()) {
    segments.insert(ToNumber(file.id));
  }
  for (const Suspicion& suspicion : suspected_) {
    const ProblemPlace& place = suspicion.place;
    const bool is_of_run = place.run != RunId{};
    const bool has_gone = is_of_run
                              ? HasGone(now, place)
                              : place.segment != SegmentId{} &&
                                    !segments.contains(ToNumber(place.segment));
    if (has_gone) continue;
    MSITD_ASSIGN_OR_RETURN(const bool are_shared, AreShared(now, place));
    if (are_shared) continue;
    Count(suspicion);
  }
  suspected_.clear();
  return absl::OkStatus();
}

absl::Status StoreCheck::BoundSuspected() {
  if (suspected_.size() < kLiveProblemsMax) return absl::OkStatus();
  return ReportLasting();
}

absl::StatusOr<bool> StoreCheck::IsAcknowledged(const chunk::Chunk& chunk,
                                                const RunBrief& run) {
  // The streams of a sealed run are not kept.
  if (run.sealed) return true;
  MSITD_ASSIGN_OR_RETURN(
      const uint64_t count,
      store_.index().streams().ChunkCount(StreamOf(chunk, run.id)));
  return chunk.header().chunk_sequence < count;
}

absl::Status StoreCheck::CheckRecord(
    const SegmentFile& segment, const FoundFrame& frame,
    const chunk::RecordDescriptor& record,
    const chunk::FramePayload::RecordBytes& place) {
  const chunk::Chunk& chunk = frame.chunk;
  const uint64_t number = ToNumber(segment.id);
  const uint64_t offset = frame.offset + chunk.head().size() + place.offset;
  const bool is_sound = chunk.kept() == chunk::Kept::kNothing ||
                        IsIntact(chunk, record,
                                 std::span<const std::byte>(payload_.span())
                                     .subspan(place.offset, place.bytes));
  ++counts_.record_count;
  counts_.payload_bytes += place.bytes;
  // An alias without an original is not in the index.
  if (chunk.ExtraOf(record).is_alias() && record.bytes_segment_id == 0) {
    return absl::OkStatus();
  }
  if (is_sound) {
    sound_.push_back(
        Fingerprint(number, offset, record.hash, record.sample_hash));
  }

  const bool is_indexed =
      number < position_.segment_id ||
      (number == position_.segment_id && frame.end() <= position_.offset);
  const absl::StatusOr<RunBrief> run =
      store_.index().runs().BriefById(RunId{chunk.header().run_id});
  // The bytes of deleted runs and discarded bytes are never read.
  if (!run.ok() ||
      store_.index().expiry().IsExpired(segment.id, run->id, offset)) {
    return absl::OkStatus();
  }
  if (!is_indexed) {
    if (!is_sound) ++counts_.torn_count;
    return absl::OkStatus();
  }
  MSITD_ASSIGN_OR_RETURN(const std::optional<IndexValue> entry,
                         FindEntryOf(store_.index(), run->id, chunk, record));
  const bool is_referenced = entry.has_value() && entry->segment_id == number &&
                             entry->offset == offset;
  if (is_referenced && !is_sound) {
    const ProblemPlace where{segment.id, run->id, offset,
                             chunk.keeps_payload() ? place.bytes : 0,
                             record.hash};
    if (chunk.keeps_payload()) {
      MSITD_ASSIGN_OR_RETURN(const auto shared, FindShared(store_, where));
      if (shared.has_value()) {
        ++counts_.shared_count;
        return absl::OkStatus();
      }
    }
    reported_.insert(
        Fingerprint(number, offset, entry->hash, entry->sample_hash));
    const StoreProblem::Cause cause = CauseOf(chunk);
    Report(
        segment.path, where,
        fmt::format("the bytes of op {} of token {} do not match their "
                    "hash: {}",
                    chunk.Text(record.op), record.token, Explain(cause, chunk)),
        cause, BadFrame{StreamOf(chunk, run->id), {number, frame.offset}});
    return absl::OkStatus();
  }
  if (entry.has_value()) return absl::OkStatus();
  MSITD_ASSIGN_OR_RETURN(const bool is_acknowledged,
                         IsAcknowledged(chunk, *run));
  if (is_acknowledged) {
    Report(segment.path, {segment.id, run->id, offset},
           fmt::format("op {} of token {} is not in the index",
                       chunk.Text(record.op), record.token));
  } else {
    ++counts_.torn_count;
  }
  return absl::OkStatus();
}

absl::Status StoreCheck::CheckFrame(const SegmentFile& segment, File& file,
                                    const FoundFrame& frame) {
  ++counts_.frame_count;
  const uint64_t bytes = frame.chunk.stored_payload_bytes();
  if (payload_.size() < bytes) payload_ = AlignedBuffer(bytes);
  MSITD_ASSIGN_OR_RETURN(const uint64_t read,
                         file.Read(frame.offset + frame.chunk.head().size(),
                                   payload_.span().first(bytes)));
  if (read < bytes) return absl::DataLossError("the file became shorter");
  const uint64_t number = ToNumber(segment.id);
  if (number > position_.segment_id ||
      (number == position_.segment_id && frame.end() > position_.offset)) {
    ++counts_.unindexed_frame_count;
  }
  const chunk::ChunkHeader& header = frame.chunk.header();
  StreamMismatch& stream =
      streams_[StreamOf(frame.chunk, RunId{header.run_id})];
  if (stream.frame_count++ == 0) {
    stream.run = frame.chunk.run();
    stream.rank = header.rank;
    stream.stream_id = header.stream_id;
  }
  if (stream.mismatch_count == 0) stream.memory = MemoryOf(frame.chunk);
  chunk::FramePayload payload(header);
  for (const chunk::RecordDescriptor& record : frame.chunk.records()) {
    MSITD_RETURN_IF_ERROR(
        CheckRecord(segment, frame, record, payload.Next(record)));
  }
  return BoundSuspected();
}

absl::Status StoreCheck::CheckSegment(const SegmentFile& segment) {
  ++counts_.segment_count;
  segments_.insert(ToNumber(segment.id));
  if (segment.IsForeignTo(store_.index().store_id())) {
    Report(segment.path, {segment.id, {}, 0},
           "the file does not belong to this store");
    return absl::OkStatus();
  }
  if (!segment.header.has_value()) {
    // A file is too short if the machine lost power while it was being created.
    if (segment.size_bytes < kSegmentHeaderBytes) {
      ++counts_.torn_count;
    } else {
      Report(segment.path, {segment.id, {}, 0}, segment.header_error);
    }
  }
  absl::StatusOr<std::unique_ptr<File>> opened =
      store_.env().OpenForRead(segment.path, /*direct=*/false);
  if (absl::IsNotFound(opened.status()) && store_.is_live()) {
    return absl::OkStatus();
  }
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, std::move(opened));
  MSITD_ASSIGN_OR_RETURN(SegmentWalk walk, store_.Walk(segment, *file));
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const SegmentWalk::Step step, walk.Next());
    using Kind = SegmentWalk::Step::Kind;
    switch (step.kind) {
      case Kind::kEnd:
        return absl::OkStatus();
      case Kind::kTail:
        ++counts_.torn_count;
        break;
      case Kind::kDamage:
        Report(segment.path, {segment.id, {}, step.gap.offset},
               fmt::format("no frame for {} bytes: {}", step.gap.bytes,
                           step.gap.reason));
        break;
      case Kind::kFrame:
        MSITD_RETURN_IF_ERROR(CheckFrame(segment, *file, *step.frame));
        break;
    }
  }
}

absl::Status StoreCheck::CheckEntry(const AuditedEntry& entry) {
  ++counts_.entry_count;
  if (!entry.value.has_value()) {
    Report("index", {},
           fmt::format("the entry of {} cannot be read",
                       DescribeKey(store_.index(), entry.key)));
    return absl::OkStatus();
  }
  const IndexValue& value = *entry.value;
  const SegmentId segment{value.segment_id};
  const RunId run{entry.key.run};
  const uint64_t fingerprint = Fingerprint(value.segment_id, value.offset,
                                           value.hash, value.sample_hash);
  if (store_.index().expiry().IsExpired(segment, run, value.offset)) {
    if (!segments_.contains(value.segment_id)) ++counts_.recordless_count;
    return absl::OkStatus();
  }
  if (reported_.contains(fingerprint) || IsSound(fingerprint)) {
    return absl::OkStatus();
  }
  const ProblemPlace place{
      segment, run, value.offset,
      value.has_bytes ? PartBytes(value.tensor_bytes, entry.key.part) : 0,
      value.hash};
  MSITD_ASSIGN_OR_RETURN(const auto shared, FindShared(store_, place));
  if (shared.has_value() &&
      IsSound(Fingerprint(shared->segment_id, shared->offset, value.hash,
                          value.sample_hash))) {
    return absl::OkStatus();
  }
  // The entry belongs to a deleted run that is being removed.
  if (store_.index().gone().Contains(run)) return absl::OkStatus();
  Report(SegmentFileName(segment), place,
         fmt::format("the bytes of {} are not there",
                     DescribeKey(store_.index(), entry.key)));
  return BoundSuspected();
}

absl::Status StoreCheck::CheckAwaited() {
  LogReplay replay(store_.index(), store_.env());
  MSITD_RETURN_IF_ERROR(replay.Begin(store_.segments()));
  MSITD_ASSIGN_OR_RETURN(const NewestSegment newest, store_.index().Newest());
  for (const uint64_t number : replay.Awaited(store_.segments(), newest)) {
    const SegmentId segment{number};
    Report(SegmentFileName(segment), {segment},
           "the file is missing or cut short, and the index does not have its "
           "tensors");
  }
  return absl::OkStatus();
}

absl::Status StoreCheck::CheckIsWhole() {
  // The daemon checked the index when it started, and has created runs since
  // then.
  if (store_.is_live()) return absl::OkStatus();
  const absl::Status status =
      CheckIndexIsWhole(store_.index(), store_.env(), store_.segments());
  if (!absl::IsDataLoss(status)) return status;
  Report("index", {}, std::string(Message(status)));
  return absl::OkStatus();
}

absl::StatusOr<StoreCheckReport> StoreCheck::Run() {
  MSITD_RETURN_IF_ERROR(CheckIsWhole());
  MSITD_RETURN_IF_ERROR(CheckAwaited());
  for (const SegmentFile& segment : store_.segments()) {
    if (absl::Status status = CheckSegment(segment); !status.ok()) {
      return Annotate(status, "check " + segment.path);
    }
  }
  std::sort(sound_.begin(), sound_.end());
  MSITD_RETURN_IF_ERROR(ForEachEntry(
      store_.index(),
      [this](const AuditedEntry& entry) { return CheckEntry(entry); }));
  counts_.attachments = CheckAttachments(
      store_.index(),
      [this](std::string what) { Report("index", {}, std::move(what)); });
  MSITD_RETURN_IF_ERROR(ReportLasting());
  ListMismatches();
  return counts_;
}

}  // namespace

absl::StatusOr<StoreCheckReport> CheckStore(
    StoreView& store, const std::function<void(const StoreProblem&)>& report) {
  return StoreCheck(store, report).Run();
}

}  // namespace msitd::storage
