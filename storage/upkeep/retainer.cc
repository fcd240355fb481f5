// SPDX-License-Identifier: Apache-2.0
#include "storage/upkeep/retainer.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <unordered_set>

#include "protos/base/limits.h"
#include "protos/chunk/frame_payload.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

RetentionLimits Effective(const RetentionLimits& run,
                          const RetentionLimits& node) {
  return {run.bytes_max != 0 ? run.bytes_max : node.bytes_max,
          run.age_max_ns != 0 ? run.age_max_ns : node.age_max_ns,
          run.token_count != 0 ? run.token_count : node.token_count};
}

// True if there is a limit and it has passed. Uses unsigned numbers, because
// the times may have any value.
bool IsOlder(int64_t now_ns, int64_t begin_ns, int64_t limit_ns) {
  return limit_ns != 0 && now_ns > begin_ns &&
         static_cast<uint64_t>(now_ns) - static_cast<uint64_t>(begin_ns) >
             static_cast<uint64_t>(limit_ns);
}

}  // namespace

bool Retainer::Dues::IsDue(const Frame& frame) const {
  return excess_bytes > 0 ||
         (limits.bytes_max != 0 && kept_bytes > limits.bytes_max) ||
         IsOlder(now_ns, AgeBegin(frame), limits.age_max_ns) ||
         (limits.token_count != 0 &&
          frame.token_end <= token_end - limits.token_count);
}

bool Retainer::Dues::IsHeldBack(const Frame& frame) const {
  return !IsDue(frame) &&
         IsOlder(now_ns, frame.receive_time_ns, limits.age_max_ns);
}

void Retainer::Dues::Take(const Frame& frame) {
  excess_bytes -= std::min(excess_bytes, frame.payload_span);
  kept_bytes -= std::min(kept_bytes, frame.record_bytes);
}

Retainer::Frame Retainer::Describe(const FoundFrame& found) {
  Frame frame;
  frame.offset = found.offset;
  frame.end = found.end();
  frame.payload_span = found.chunk.stored_payload_bytes();
  frame.receive_time_ns = found.chunk.header().receive_time_ns;
  chunk::FramePayload payload(found.chunk.header());
  for (const chunk::RecordDescriptor& record : found.chunk.records()) {
    frame.record_bytes += payload.Next(record).bytes;
    frame.token_end = std::max(frame.token_end, record.token + 1);
  }
  return frame;
}

std::string Retainer::PathOf(uint64_t segment) const {
  return segment_directory_ + "/" + SegmentFileName(SegmentId{segment});
}

SegmentScanner Retainer::Scanner(File& file, uint64_t segment, uint64_t begin,
                                 uint64_t end) const {
  SegmentScanner::ScanRange place;
  place.store_id = index_.store_id();
  place.segment = SegmentId{segment};
  place.begin_bytes = std::max(begin, kSegmentHeaderBytes);
  place.end_bytes = end;
  return SegmentScanner(file, place);
}

absl::StatusOr<Retainer::Outcome> Retainer::Step(const RetentionPolicy& policy,
                                                 const Room& room) {
  heads_left_ = kHeadsPerStep;
  Outcome outcome;
  if (!knows_drained_) {
    for (const SegmentId segment : index_.expiry().Drained()) {
      MSITD_RETURN_IF_ERROR(EnterDrained(segment));
    }
    knows_drained_ = true;
  }
  if (const auto place = index_.expiry().Unfreed(); place.has_value()) {
    outcome.is_done = false;
    MSITD_RETURN_IF_ERROR(Free(place->segment, place->run, outcome));
    return outcome;
  }
  MSITD_ASSIGN_OR_RETURN(const std::optional<Choice> choice,
                         Choose(policy, room, outcome));
  if (choice.has_value()) {
    outcome.is_done = false;
    MSITD_RETURN_IF_ERROR(Expire(*choice, room, outcome));
  }
  return outcome;
}

absl::StatusOr<std::optional<Retainer::Choice>> Retainer::Choose(
    const RetentionPolicy& policy, const Room& room, Outcome& outcome) {
  std::optional<Choice> oldest;
  const std::vector<RunBrief> runs = index_.runs().Briefs();
  if (fronts_.size() > runs.size()) {
    std::unordered_set<uint64_t> known;
    for (const RunBrief& run : runs) known.insert(ToNumber(run.id));
    std::erase_if(fronts_, [&known](const auto& entry) {
      return !known.contains(entry.first);
    });
  }
  if (!fronts_end_.has_value()) PlaceFronts(runs, room);
  for (const RunBrief& run : runs) {
    if (run.retention.pinned) continue;
    Choice choice;
    choice.run = run.id;
    choice.dues.limits = Effective(run.retention.limits, policy.run);
    if (choice.dues.limits == RetentionLimits() && room.excess_bytes == 0) {
      continue;
    }
    choice.dues.kept_bytes = run.counters.kept_bytes();
    choice.dues.token_end = run.counters.token_end;
    choice.dues.now_ns = room.now_ns;
    choice.dues.steady_since_ns = room.steady_since_ns;
    choice.dues.clock_set_ns = room.clock_set_ns;
    choice.front =
        &fronts_.try_emplace(ToNumber(run.id), Front{*fronts_end_, 0, {}})
             .first->second;
    MSITD_RETURN_IF_ERROR(Look(run.id, room, *choice.front));
    if (heads_left_ == 0) outcome.is_done = false;
    const Front& front = *choice.front;
    if (!front.frame.has_value()) continue;
    if (choice.dues.IsDue(*front.frame)) {
      if (front.segment < room.sealed_end) return choice;
      outcome.wants_seal = true;
    }
    outcome.holds_back |= choice.dues.IsHeldBack(*front.frame);
    choice.dues.excess_bytes = room.excess_bytes;
    if (room.excess_bytes > 0 &&
        (!oldest.has_value() ||
         std::tie(front.segment, front.offset) <
             std::tie(oldest->front->segment, oldest->front->offset))) {
      oldest = choice;
    }
  }
  if (oldest.has_value() && oldest->front->segment >= room.sealed_end) {
    outcome.wants_seal = true;
    oldest.reset();
  }
  return oldest;
}

absl::Status Retainer::Look(RunId run, const Room& room, Front& front) {
  while (!front.frame.has_value() && heads_left_ > 0) {
    const bool is_open = front.segment >= room.sealed_end;
    const uint64_t end = is_open ? room.open_end_bytes : ExpiryMark::kAll;
    if (front.segment > room.sealed_end || (is_open && front.offset >= end)) {
      return absl::OkStatus();
    }
    const SegmentId segment{front.segment};
    const uint64_t mark_end = index_.expiry().Mark(segment, run).end;
    front.offset = std::max(front.offset, mark_end);
    if (!is_open) --heads_left_;
    MSITD_ASSIGN_OR_RETURN(const std::optional<uint64_t> live,
                           index_.segments().LiveBytes(segment, run));
    if (live.has_value() && mark_end != ExpiryMark::kAll) {
      MSITD_RETURN_IF_ERROR(LookInSegment(run, room, end, front));
    } else if (is_open) {
      // The current segment may still receive frames of the run.
      return absl::OkStatus();
    } else {
      front.offset = end;
    }
    if (!is_open && front.offset == end) front = {front.segment + 1, 0, {}};
  }
  return absl::OkStatus();
}

absl::Status Retainer::LookInSegment(RunId run, const Room& room, uint64_t end,
                                     Front& front) {
  MSITD_ASSIGN_OR_RETURN(const Search found, SearchSegment(run, end, front));
  if (found.result == Search::Result::kUnknown) return absl::OkStatus();
  if (found.result == Search::Result::kFound) {
    front.frame = found.frame;
    front.offset = found.frame.offset;
    return absl::OkStatus();
  }
  const SegmentId segment{front.segment};
  ExpiryMark mark = index_.expiry().Mark(segment, run);
  // The run has no frame after the mark, so all of its bytes in this segment
  // have been discarded.
  if (found.result == Search::Result::kNone &&
      front.segment < room.sealed_end && mark.end > 0) {
    MSITD_ASSIGN_OR_RETURN(const std::optional<uint64_t> live,
                           index_.segments().LiveBytes(segment, run));
    mark = {ExpiryMark::kAll, ExpiryMark::kAll, live.value_or(0)};
    MSITD_RETURN_IF_ERROR(index_.Expire(segment, run, mark));
    MSITD_RETURN_IF_ERROR(EnterDrained(segment));
  }
  front.offset = end;
  return absl::OkStatus();
}

absl::StatusOr<Retainer::Search> Retainer::SearchSegment(RunId run,
                                                         uint64_t end,
                                                         const Front& front) {
  using enum Search::Result;
  if (pass_frame_count_ >= kPassFramesMax) {
    passes_.clear();
    pass_frame_count_ = 0;
  }
  Pass& pass = passes_[front.segment];
  const auto known = pass.frames.find(ToNumber(run));
  const bool is_known = known != pass.frames.end();
  if (is_known && known->second.offset >= front.offset) {
    return Search{kFound, known->second};
  }
  // The frame that the pass remembers has been discarded since. The next one
  // may be in the part that the pass has already read, so this scan is only for
  // this run.
  const bool extends_pass = !is_known;
  const uint64_t begin = extends_pass ? pass.end : front.offset;
  if (begin >= end) return Search{kNone};
  const absl::StatusOr<std::unique_ptr<File>> file =
      env_.OpenForRead(PathOf(front.segment), /*direct=*/false);
  // A missing file has nothing to discard; see SegmentWatch.
  if (absl::IsNotFound(file.status())) return Search{kNoFile};
  if (!file.ok()) return file.status();
  MSITD_ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
  SegmentScanner scanner =
      Scanner(**file, front.segment, begin, std::min(end, size));
  while (heads_left_ > 0) {
    --heads_left_;
    MSITD_ASSIGN_OR_RETURN(const ScanStep step, scanner.Next());
    if (!step.frame.has_value()) {
      if (extends_pass) pass.end = end;
      return Search{kNone};
    }
    const RunId owner{step.frame->chunk.header().run_id};
    if (extends_pass) {
      pass.end = step.frame->end();
      Keep(front.segment, pass, owner, *step.frame);
    }
    if (owner == run && step.frame->offset >= front.offset) {
      return Search{kFound, Describe(*step.frame)};
    }
  }
  return Search{kUnknown};
}

void Retainer::Keep(uint64_t segment, Pass& pass, RunId run,
                    const FoundFrame& found) {
  if (pass.frames.contains(ToNumber(run)) ||
      found.offset < index_.expiry().Mark(SegmentId{segment}, run).end) {
    return;
  }
  pass.frames.emplace(ToNumber(run), Describe(found));
  ++pass_frame_count_;
}

void Retainer::PlaceFronts(const std::vector<RunBrief>& runs,
                           const Room& room) {
  for (const RunBrief& run : runs) {
    fronts_[ToNumber(run.id)] = {room.sealed_end, 0, {}};
  }
  const absl::Status placed = index_.segments().ForEachUse(
      [this](SegmentId segment, RunId run, uint64_t /*live_bytes*/) {
        const auto front = fronts_.find(ToNumber(run));
        if (front == fronts_.end() ||
            front->second.segment <= ToNumber(segment) ||
            index_.expiry().Mark(segment, run).end == ExpiryMark::kAll) {
          return;
        }
        front->second.segment = ToNumber(segment);
      });
  fronts_end_ = room.sealed_end;
  if (placed.ok()) return;
  // Discarding also works without this part of the index, but takes more time.
  fronts_.clear();
  fronts_end_ = 0;
}

void Retainer::Forget(uint64_t segment) {
  drained_.erase(segment);
  const auto pass = passes_.find(segment);
  if (pass == passes_.end()) return;
  pass_frame_count_ -= pass->second.frames.size();
  passes_.erase(pass);
}

absl::Status Retainer::EnsureIndexed(uint64_t segment, const Room& room) {
  if (segment < indexed_end_) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(index_.db().Flush());
  indexed_end_ = room.sealed_end;
  return absl::OkStatus();
}

absl::Status Retainer::Expire(const Choice& choice, const Room& room,
                              Outcome& outcome) {
  Front& front = *choice.front;
  const SegmentId segment{front.segment};
  Dues dues = choice.dues;
  MSITD_RETURN_IF_ERROR(EnsureIndexed(front.segment, room));
  const absl::StatusOr<std::unique_ptr<File>> file =
      env_.OpenForRead(PathOf(front.segment), /*direct=*/false);
  if (absl::IsNotFound(file.status())) {
    // A missing file has nothing to discard; see SegmentWatch. Other segments
    // must still free space.
    front = {front.segment + 1, 0, {}};
    return absl::OkStatus();
  }
  if (!file.ok()) return file.status();
  MSITD_ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
  SegmentScanner scanner = Scanner(**file, front.segment, front.offset, size);
  ExpiryMark mark = index_.expiry().Mark(segment, choice.run);
  const uint64_t bytes_before = mark.bytes;
  MSITD_ASSIGN_OR_RETURN(const std::optional<uint64_t> live,
                         index_.segments().LiveBytes(segment, choice.run));
  for (int frames = 0; frames < kFramesPerStep && heads_left_ > 0;
       --heads_left_) {
    MSITD_ASSIGN_OR_RETURN(const ScanStep step, scanner.Next());
    if (!step.frame.has_value()) {
      mark.end = ExpiryMark::kAll;
      break;
    }
    if (RunId{step.frame->chunk.header().run_id} != choice.run) continue;
    const Frame frame = Describe(*step.frame);
    if (!dues.IsDue(frame)) break;
    dues.Take(frame);
    ++frames;
    mark.end = frame.end;
    mark.bytes += frame.record_bytes;
  }
  // Frames also have repeated records, to which no entry refers; the mark
  // counts only bytes with entries.
  mark.bytes = mark.end == ExpiryMark::kAll
                   ? live.value_or(0)
                   : std::min(mark.bytes, live.value_or(0));
  MSITD_RETURN_IF_ERROR(index_.Expire(segment, choice.run, mark));
  outcome.expired_bytes = mark.bytes - std::min(mark.bytes, bytes_before);
  front = {front.segment, mark.end, {}};
  if (mark.end == ExpiryMark::kAll) front = {front.segment + 1, 0, {}};
  return Free(segment, choice.run, outcome);
}

absl::Status Retainer::Free(SegmentId segment, RunId run, Outcome& outcome) {
  const uint64_t number = ToNumber(segment);
  ExpiryMark mark = index_.expiry().Mark(segment, run);
  const absl::StatusOr<std::unique_ptr<File>> file =
      env_.OpenForWrite(PathOf(number), /*direct=*/false);
  if (file.ok()) {
    MSITD_ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
    SegmentScanner scanner =
        Scanner(**file, number, mark.freed_end, std::min(size, mark.end));
    absl::Status freed;
    while (freed.ok()) {
      MSITD_ASSIGN_OR_RETURN(const ScanStep step, scanner.Next());
      if (!step.frame.has_value()) break;
      const chunk::ChunkHeader& header = step.frame->chunk.header();
      const uint64_t span = step.frame->chunk.stored_payload_bytes();
      if (RunId{header.run_id} != run || span == 0) continue;
      freed = (*file)->PunchHole(step.frame->end() - span, span);
    }
    // A file system without support for holes frees the space with the whole
    // file.
    if (!absl::IsUnimplemented(freed)) MSITD_RETURN_IF_ERROR(freed);
    MSITD_RETURN_IF_ERROR((*file)->Sync());
    MSITD_ASSIGN_OR_RETURN(const uint64_t allocated, (*file)->AllocatedBytes());
    outcome.changed = {segment, std::min(size, allocated)};
  } else if (!absl::IsNotFound(file.status())) {
    return file.status();
  }
  mark.freed_end = mark.end;
  MSITD_RETURN_IF_ERROR(index_.Expire(segment, run, mark));
  return mark.end == ExpiryMark::kAll ? EnterDrained(segment)
                                      : absl::OkStatus();
}

absl::Status Retainer::EnterDrained(SegmentId segment) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<RunId> runs,
                         index_.segments().RunsIn(segment));
  for (const RunId run : runs) {
    if (index_.expiry().Mark(segment, run).end != ExpiryMark::kAll) {
      return absl::OkStatus();
    }
  }
  drained_.insert(ToNumber(segment));
  return absl::OkStatus();
}

}  // namespace msitd::storage
