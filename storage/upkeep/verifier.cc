// SPDX-License-Identifier: Apache-2.0
#include "storage/upkeep/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <span>

#include "protos/status/status.h"
#include "storage/env/logger.h"
#include "storage/index/record_entry.h"
#include "storage/segment/segment_format.h"
#include "storage/segment/segment_set.h"

namespace msitd::storage {

absl::Status Verifier::Load() {
  MSITD_ASSIGN_OR_RETURN(const VerifyMark mark, index_.verify().Mark());
  must_begin_ = mark.has_findings;
  segment_ = must_begin_ ? 0 : mark.next_segment;
  offset_ = 0;
  round_end_ns_ = mark.round_end_ns;
  is_loaded_ = true;
  return absl::OkStatus();
}

absl::StatusOr<VerifyStep> Verifier::Step(const VerifyPolicy& policy,
                                          uint64_t sealed_end, bool may_write) {
  if (!is_loaded_) MSITD_RETURN_IF_ERROR(Load());
  if (has_unkept_mark_) KeepMark(may_write);
  ForgetGone();
  VerifyStep step;
  const int64_t now_ns = env_.NowNs();
  // A clock that was set back must not stop the verification.
  const bool is_due = must_begin_ || round_end_ns_ == 0 ||
                      now_ns < round_end_ns_ ||
                      now_ns - round_end_ns_ >= policy.interval_ns;
  if (segment_ == 0) {
    if (!is_due) return step;
    must_begin_ = false;
    segment_ = 1;
    offset_ = 0;
  }
  if (offset_ == 0) MSITD_RETURN_IF_ERROR(BeginSegment(sealed_end));
  if (offset_ == 0) {
    step.is_done = false;
    return step;
  }
  if (segment_ >= sealed_end) {
    EndRound();
    KeepMark(may_write);
    return step;
  }
  step.is_done = false;
  const absl::Status status = LookInSegment(policy.bytes_max, step);
  if (!status.ok()) {
    ++segment_;
    offset_ = 0;
  }
  if (offset_ == 0) KeepMark(may_write);
  stats_.frame_count += step.frame_count;
  stats_.bytes += step.bytes;
  if (!status.ok()) return status;
  return step;
}

absl::Status Verifier::BeginSegment(uint64_t sealed_end) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         env_.List(segment_directory_));
  std::set<uint64_t> numbers;
  for (const std::string& name : names) {
    const std::optional<SegmentId> id = ParseSegmentFileName(name);
    if (id.has_value()) numbers.insert(ToNumber(*id));
  }
  const auto found = numbers.lower_bound(segment_);
  segment_ = found == numbers.end() ? sealed_end : *found;
  offset_ = kSegmentHeaderBytes;
  sequence_min_ = 0;
  known_end_ = 0;
  if (segment_ >= sealed_end) return absl::OkStatus();
  const absl::StatusOr<SegmentFile> file =
      ExamineSegment(env_, segment_directory_, SegmentId{segment_});
  const bool is_foreign = file.ok() && file->IsForeignTo(index_.store_id());
  const bool has_bad_header = file.ok() && !file->header.has_value() &&
                              file->size_bytes >= kSegmentHeaderBytes;
  if (!file.ok() && !absl::IsNotFound(file.status())) {
    NoteFile(0, Message(file.status()));
  }
  if (has_bad_header) NoteFile(0, file->header_error);
  if (!file.ok() || is_foreign) {
    ++segment_;
    offset_ = 0;
    return absl::OkStatus();
  }
  if (const auto next = std::next(found); next != numbers.end()) {
    const auto other =
        ExamineSegment(env_, segment_directory_, SegmentId{*next});
    if (other.ok() && other->header.has_value() &&
        !other->IsForeignTo(index_.store_id()) &&
        other->header->previous_segment_id == segment_) {
      known_end_ = other->header->previous_end_bytes;
    }
  }
  return absl::OkStatus();
}

absl::Status Verifier::LookInSegment(uint64_t bytes_max, VerifyStep& step) {
  const std::string path =
      segment_directory_ + "/" + SegmentFileName(SegmentId{segment_});
  const absl::StatusOr<std::unique_ptr<File>> file =
      env_.OpenForRead(path, direct_);
  if (absl::IsNotFound(file.status())) {
    ++segment_;
    offset_ = 0;
    return absl::OkStatus();
  }
  if (!file.ok()) return Annotate(file.status(), "check " + path);
  SegmentScanner::ScanRange place;
  place.store_id = index_.store_id();
  place.segment = SegmentId{segment_};
  place.begin_bytes = offset_;
  place.frame_sequence_min = sequence_min_;
  MSITD_ASSIGN_OR_RETURN(place.end_bytes, (*file)->Size());
  SegmentScanner scanner(**file, place);
  while (step.bytes < bytes_max) {
    const absl::StatusOr<ScanStep> next = scanner.Next();
    if (!next.ok()) {
      // A disk that cannot return the bytes is a finding, not an error.
      NoteFile(offset_, Message(next.status()));
      ++segment_;
      offset_ = 0;
      return absl::OkStatus();
    }
    const bool is_end = !next->frame.has_value();
    // Bytes after the end were never acknowledged.
    if (next->gap.has_value() &&
        (known_end_ == 0 ? !is_end : next->gap->offset < known_end_)) {
      NoteFile(next->gap->offset,
               fmt::format("no frame for {} bytes: {}", next->gap->bytes,
                           next->gap->reason));
    }
    if (is_end) {
      ++segment_;
      offset_ = 0;
      return absl::OkStatus();
    }
    MSITD_RETURN_IF_ERROR(LookAtFrame(**file, *next->frame, step));
    offset_ = next->frame->end();
    sequence_min_ = next->frame->chunk.header().frame_sequence + 1;
  }
  return absl::OkStatus();
}

absl::Status Verifier::LookAtFrame(File& file, const FoundFrame& frame,
                                   VerifyStep& step) {
  const chunk::Chunk& chunk = frame.chunk;
  const absl::StatusOr<RunBrief> run =
      index_.runs().BriefById(RunId{chunk.header().run_id});
  if (!run.ok()) return absl::OkStatus();
  const uint64_t bytes = chunk.stored_payload_bytes();
  if (payload_.size() < bytes) payload_ = AlignedBuffer(bytes);
  const absl::StatusOr<uint64_t> read = file.Read(
      frame.offset + chunk.head().size(), payload_.span().first(bytes));
  ++step.frame_count;
  step.bytes += chunk.head().size() + bytes;
  VerifyFinding finding;
  finding.rank = chunk.header().rank;
  finding.may_be_producer = (chunk.header().flags & chunk::kOwnMemoryFlag) == 0;
  if (!read.ok()) {
    finding.problem = std::string(Message(read.status()));
    Note(frame.offset, run->id, std::move(finding));
    return absl::OkStatus();
  }
  std::fill(payload_.span().begin() + static_cast<ptrdiff_t>(*read),
            payload_.span().begin() + static_cast<ptrdiff_t>(bytes),
            std::byte{0});
  MSITD_ASSIGN_OR_RETURN(const std::optional<size_t> bad,
                         FirstBad(frame, run->id));
  if (!bad.has_value()) return absl::OkStatus();
  finding.problem =
      fmt::format("the bytes of record {} of {} do not match their hash",
                  *bad + 1, chunk.records().size());
  Note(frame.offset, run->id, std::move(finding));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<size_t>> Verifier::FirstBad(
    const FoundFrame& frame, RunId run) {
  const chunk::Chunk& chunk = frame.chunk;
  if (chunk.kept() == chunk::Kept::kNothing) return std::nullopt;
  chunk::FramePayload payload(chunk.header());
  size_t number = 0;
  for (const chunk::RecordDescriptor& record : chunk.records()) {
    const chunk::FramePayload::RecordBytes place = payload.Next(record);
    const auto bytes = std::span<const std::byte>(payload_.span())
                           .subspan(place.offset, place.bytes);
    if (!IsIntact(chunk, record, bytes)) {
      MSITD_ASSIGN_OR_RETURN(const bool is_needed,
                             IsNeeded(frame, run, record, place));
      if (is_needed) return number;
    }
    ++number;
  }
  return std::nullopt;
}

absl::StatusOr<bool> Verifier::IsNeeded(
    const FoundFrame& frame, RunId run, const chunk::RecordDescriptor& record,
    const chunk::FramePayload::RecordBytes& place) {
  const SegmentId segment{segment_};
  const uint64_t offset =
      frame.offset + frame.chunk.head().size() + place.offset;
  if (index_.expiry().IsExpired(segment, run, offset)) return false;
  MSITD_ASSIGN_OR_RETURN(const std::optional<IndexValue> entry,
                         FindEntryOf(index_, run, frame.chunk, record));
  if (!entry.has_value() || entry->segment_id != segment_ ||
      entry->offset != offset) {
    return false;
  }
  if (!frame.chunk.keeps_payload()) return true;
  MSITD_ASSIGN_OR_RETURN(const std::optional<BytePlace> shared,
                         index_.shared().Find({run, record.hash, place.bytes}));
  return !shared.has_value() || *shared <= BytePlace{segment_, offset};
}

void Verifier::NoteFile(uint64_t offset, std::string_view problem) {
  VerifyFinding finding;
  finding.problem = std::string(problem);
  Note(offset, RunId{}, std::move(finding));
}

void Verifier::Note(uint64_t offset, RunId run, VerifyFinding finding) {
  const Place place{segment_, offset};
  const auto known = found_.find(place);
  if (known != found_.end()) {
    known->second.round = round_;
    return;
  }
  if (found_.size() >= kFindingsMax) return;
  finding.segment = SegmentFileName(SegmentId{segment_});
  finding.offset = offset;
  if (const auto info = index_.runs().GetById(run); info.ok()) {
    finding.run = info->spec.name;
  }
  StorageLogger()->error(
      "stored bytes went bad segment={} offset={} run='{}' rank={} error='{}'",
      finding.segment, offset, finding.run, finding.rank, finding.problem);
  found_[place] = {std::move(finding), run, round_};
}

void Verifier::ForgetGone() {
  std::erase_if(found_, [this](const auto& entry) {
    const RunId run = entry.second.run;
    return run != RunId{} && !index_.runs().BriefById(run).ok();
  });
}

void Verifier::EndRound() {
  std::erase_if(found_, [this](const auto& entry) {
    return entry.second.round != round_;
  });
  ++round_;
  segment_ = 0;
  offset_ = 0;
  round_end_ns_ = env_.NowNs();
}

void Verifier::KeepMark(bool may_write) {
  has_unkept_mark_ = true;
  if (!may_write) return;
  const absl::Status status =
      index_.verify().SetMark({segment_, round_end_ns_, !found_.empty()});
  has_unkept_mark_ = !status.ok();
}

VerifyStats Verifier::Stats() const {
  VerifyStats out = stats_;
  out.round_end_ns = round_end_ns_;
  out.finding_count = found_.size();
  for (const auto& [place, found] : found_) {
    if (out.findings.size() >= VerifyStats::kFindingsShown) break;
    out.findings.push_back(found.finding);
  }
  return out;
}

}  // namespace msitd::storage
