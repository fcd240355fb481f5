// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/lost_marks.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "protos/base/byte_codec.h"
#include "protos/chunk/frame_payload.h"
#include "protos/status/status.h"
#include "storage/index/record_entry.h"
#include "storage/segment/segment_scanner.h"
#include "storage/segment/segment_walk.h"

namespace msitd::storage {
namespace {

// The place of shared bytes while no sound copy of them was found.
constexpr BytePlace kNoPlace{};

class LostMarks {
 public:
  LostMarks(ChunkIndex& index, Env& env, const std::vector<SegmentFile>& files)
      : index_(index),
        env_(env),
        files_(files),
        known_ends_(KnownEnds(files, index.store_id())) {}

  absl::StatusOr<LostMarksCounts> Run() {
    for (const SegmentFile& file : files_) {
      const auto look = [&](const FoundFrame& frame) {
        return LookForShared(frame);
      };
      MSITD_RETURN_IF_ERROR(ForEachFrame(file, look));
    }
    for (const SegmentFile& file : files_) {
      if (!segments_with_holes_.contains(ToNumber(file.id))) continue;
      fronts_.clear();
      const auto look = [&](const FoundFrame& frame) {
        return LookForGivenUp(frame);
      };
      MSITD_RETURN_IF_ERROR(ForEachFrame(file, look));
      MSITD_RETURN_IF_ERROR(MarkGivenUp(file.id));
    }
    MSITD_RETURN_IF_ERROR(RemoveUnfound());
    return counts_;
  }

 private:
  // A record that the index refers to at this place.
  struct Referenced {
    SharedBytes bytes;
    BytePlace place;
    bool is_whole = false;  // All bytes of the record are kept.
    bool is_sound = false;
  };
  // How far the frames of a run have been given up in a segment.
  struct Front {
    bool is_ended = false;
    uint64_t end = 0;
    uint64_t bytes = 0;         // Before `end`.
    uint64_t passed_bytes = 0;  // Of frames that were looked at.
  };

  // Calls `visit` for each frame of a run that is there, with its payload in
  // payload_.
  absl::Status ForEachFrame(
      const SegmentFile& segment,
      absl::FunctionRef<absl::Status(const FoundFrame&)> visit) {
    if (segment.IsForeignTo(index_.store_id())) return absl::OkStatus();
    MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                           env_.OpenForRead(segment.path, /*direct=*/false));
    SegmentScanner::ScanRange place;
    place.store_id = index_.store_id();
    place.segment = segment.id;
    place.end_bytes = segment.size_bytes;
    std::optional<uint64_t> known_end;
    if (const auto it = known_ends_.find(ToNumber(segment.id));
        it != known_ends_.end()) {
      known_end = it->second;
    }
    MSITD_ASSIGN_OR_RETURN(SegmentWalk walk,
                           SegmentWalk::Begin(*file, place, known_end, 0));
    while (true) {
      MSITD_ASSIGN_OR_RETURN(const SegmentWalk::Step step, walk.Next());
      if (step.kind == SegmentWalk::Step::Kind::kEnd) return absl::OkStatus();
      if (step.kind != SegmentWalk::Step::Kind::kFrame) continue;
      const chunk::Chunk& chunk = step.frame->chunk;
      if (chunk.kept() == chunk::Kept::kNothing ||
          !index_.runs().BriefById(RunId{chunk.header().run_id}).ok()) {
        continue;
      }
      const uint64_t bytes = chunk.stored_payload_bytes();
      if (payload_.size() < bytes) payload_ = AlignedBuffer(bytes);
      MSITD_ASSIGN_OR_RETURN(
          const uint64_t read,
          file->Read(step.frame->offset + chunk.head().size(),
                     payload_.span().first(bytes)));
      if (read < bytes) continue;
      MSITD_RETURN_IF_ERROR(visit(*step.frame));
    }
  }

  // Calls `visit` for the records of the frame whose bytes lie here and that
  // the index refers to.
  absl::Status ForEachRecord(
      const FoundFrame& frame,
      absl::FunctionRef<absl::Status(const Referenced&)> visit) {
    const chunk::Chunk& chunk = frame.chunk;
    const chunk::ChunkHeader& header = chunk.header();
    chunk::FramePayload payload(header);
    for (const chunk::RecordDescriptor& record : chunk.records()) {
      const chunk::FramePayload::RecordBytes at = payload.Next(record);
      if (!chunk.HasOwnBytes(record) || at.bytes == 0) continue;
      Referenced out;
      out.bytes = {RunId{header.run_id}, record.hash, at.bytes};
      out.place = {header.segment_id,
                   frame.offset + chunk.head().size() + at.offset};
      MSITD_ASSIGN_OR_RETURN(const std::optional<IndexValue> entry,
                             FindEntryOf(index_, out.bytes.run, chunk, record));
      if (!entry.has_value() ||
          BytePlace{entry->segment_id, entry->offset} != out.place) {
        continue;
      }
      out.is_whole = chunk.kept() == chunk::Kept::kAll;
      out.is_sound = IsIntact(chunk, record,
                              std::span<const std::byte>(payload_.span())
                                  .subspan(at.offset, at.bytes));
      MSITD_RETURN_IF_ERROR(visit(out));
    }
    return absl::OkStatus();
  }

  static bool CanBeShared(const Referenced& record) {
    return record.is_whole && record.bytes.bytes >= kSharedBytesMin;
  }

  absl::Status PutShared(const SharedBytes& bytes, const BytePlace& place) {
    rocksdb::WriteBatch batch;
    index_.shared().AppendTo(batch, bytes, place);
    MSITD_RETURN_IF_ERROR(index_.db().WriteUnlogged(batch));
    index_.shared().Accept(bytes.run);
    return absl::OkStatus();
  }

  absl::Status LookForShared(const FoundFrame& frame) {
    return ForEachRecord(frame, [&](const Referenced& record) -> absl::Status {
      if (!record.is_sound)
        segments_with_holes_.insert(record.place.segment_id);
      if (!CanBeShared(record)) return absl::OkStatus();
      if (record.is_sound && !index_.shared().HasEntries(record.bytes.run)) {
        return absl::OkStatus();
      }
      MSITD_ASSIGN_OR_RETURN(const std::optional<BytePlace> known,
                             index_.shared().Find(record.bytes));
      if (record.is_sound == known.has_value()) {
        return record.is_sound ? PutShared(record.bytes, record.place)
                               : PutShared(record.bytes, kNoPlace);
      }
      return absl::OkStatus();
    });
  }

  // True if the bytes of the record are found at a later place.
  absl::StatusOr<bool> IsShared(const Referenced& record) {
    if (!CanBeShared(record)) return false;
    MSITD_ASSIGN_OR_RETURN(const std::optional<BytePlace> known,
                           index_.shared().Find(record.bytes));
    return known.has_value() && *known > record.place;
  }

  absl::Status LookForGivenUp(const FoundFrame& frame) {
    Front& front = fronts_[frame.chunk.header().run_id];
    if (front.is_ended) return absl::OkStatus();
    const auto bytes = std::span<const std::byte>(payload_.span())
                           .first(frame.chunk.stored_payload_bytes());
    if (std::any_of(bytes.begin(), bytes.end(),
                    [](std::byte byte) { return byte != std::byte{0}; })) {
      front.is_ended = true;
      return absl::OkStatus();
    }
    bool is_given_up = false;
    MSITD_RETURN_IF_ERROR(
        ForEachRecord(frame, [&](const Referenced& record) -> absl::Status {
          front.passed_bytes += record.bytes.bytes;
          if (record.is_sound) return absl::OkStatus();
          MSITD_ASSIGN_OR_RETURN(const bool is_shared, IsShared(record));
          is_given_up |= !is_shared;
          return absl::OkStatus();
        }));
    if (is_given_up) {
      front.end = frame.end();
      front.bytes = front.passed_bytes;
    }
    return absl::OkStatus();
  }

  absl::Status MarkGivenUp(SegmentId segment) {
    for (const auto& [number, front] : fronts_) {
      const RunId run{number};
      const ExpiryMark before = index_.expiry().Mark(segment, run);
      if (front.end <= before.end) continue;
      MSITD_RETURN_IF_ERROR(
          index_.Expire(segment, run, {front.end, front.end, front.bytes}));
      counts_.given_up_bytes +=
          front.bytes - std::min(front.bytes, before.bytes);
    }
    return absl::OkStatus();
  }

  // Removes the entries of bytes of which no sound copy was found.
  absl::Status RemoveUnfound() {
    constexpr std::string_view kPrefix = "s";
    rocksdb::WriteBatch batch;
    std::set<uint64_t> runs;
    std::set<uint64_t> runs_left;
    {
      const auto it =
          index_.db().Iterate(Table::kSegment, rocksdb::ReadOptions());
      for (it->Seek(kPrefix); it->Valid() && it->key().starts_with(kPrefix);
           it->Next()) {
        BytePlace place;
        const uint64_t run = GetBigEndian(it->key().data() + 1, 8);
        runs.insert(run);
        if (DecodeBytePlace(it->value().ToStringView(), place) &&
            place != kNoPlace) {
          ++counts_.shared_count;
          runs_left.insert(run);
          continue;
        }
        index_.db().Delete(batch, Table::kSegment, it->key().ToStringView());
        if (batch.GetDataSize() < kBatchBytesMax) continue;
        MSITD_RETURN_IF_ERROR(index_.db().WriteUnlogged(batch));
        batch.Clear();
      }
      MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read segments"));
    }
    MSITD_RETURN_IF_ERROR(index_.db().WriteUnlogged(batch));
    for (const uint64_t run : runs) {
      if (!runs_left.contains(run)) index_.shared().AcceptRemoval(RunId{run});
    }
    return absl::OkStatus();
  }

  static constexpr size_t kBatchBytesMax = size_t{4} << 20;

  ChunkIndex& index_;
  Env& env_;
  const std::vector<SegmentFile>& files_;
  const std::map<uint64_t, uint64_t> known_ends_;
  AlignedBuffer payload_;
  std::set<uint64_t> segments_with_holes_;
  std::map<uint64_t, Front> fronts_;  // By run, of the present segment.
  LostMarksCounts counts_;
};

}  // namespace

absl::StatusOr<LostMarksCounts> FindLostMarks(
    ChunkIndex& index, Env& env, const std::vector<SegmentFile>& files) {
  return LostMarks(index, env, files).Run();
}

}  // namespace msitd::storage
