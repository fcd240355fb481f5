// SPDX-License-Identifier: Apache-2.0
#include "storage/index/frame_indexer.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protos/base/limits.h"
#include "protos/chunk/frame_payload.h"
#include "protos/status/status.h"
#include "storage/face/run_sums.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/log_position.h"
#include "storage/index/name/chunk_names.h"

namespace msitd::storage {
namespace {

// A record that is about to be indexed. Vectors of these are in order of
// arrival.
struct Pending {
  EncodedKey key;
  const LogFrame* frame;
  const chunk::RecordDescriptor* record;
  // Location of the record, or of its sample, in the frame's payload.
  chunk::FramePayload::RecordBytes place;
  // Numbers of names, or 0.
  uint32_t placement = 0;
  uint32_t stack = 0;
  uint32_t alias_op = 0;
  uint32_t alias_index = 0;
};

// An alias without an original, and its frame.
struct Dangling {
  const LogFrame* frame;
  bool is_first_part;
};

// Stores the numbers of the names in a record's extra in `out`.
absl::Status NumberExtra(const chunk::RecordExtra& extra, ChunkNames& ids,
                         Pending& out) {
  if (extra.stack.length > 0) {
    MSITD_ASSIGN_OR_RETURN(out.stack, ids.IdOf(extra.stack));
  }
  if (extra.is_alias()) {
    MSITD_ASSIGN_OR_RETURN(out.alias_op, ids.IdOf(extra.alias_op));
    MSITD_ASSIGN_OR_RETURN(out.alias_index, ids.IdOf(extra.alias_index));
  }
  return absl::OkStatus();
}

absl::Status AppendRecordsOf(const LogFrame& frame, NewNames& names,
                             std::vector<Pending>& out,
                             std::vector<Dangling>& dangling) {
  const chunk::Chunk& chunk = *frame.chunk;
  ChunkNames ids(chunk, names);
  chunk::FramePayload payload(chunk.header());
  IndexKey key;
  key.run = static_cast<uint32_t>(frame.run);
  key.rank = static_cast<uint32_t>(chunk.header().rank);
  for (const chunk::RecordDescriptor& record : chunk.records()) {
    const chunk::FramePayload::RecordBytes place = payload.Next(record);
    const chunk::RecordExtra extra = chunk.ExtraOf(record);
    if (extra.is_alias() && record.bytes_segment_id == 0) {
      dangling.push_back({&frame, record.part_offset == 0});
      continue;
    }
    MSITD_ASSIGN_OR_RETURN(key.device, ids.IdOf(record.device));
    MSITD_ASSIGN_OR_RETURN(key.op, ids.IdOf(record.op));
    MSITD_ASSIGN_OR_RETURN(key.index, ids.IdOf(record.index));
    key.token = static_cast<uint64_t>(record.token);
    key.call = static_cast<uint32_t>(record.call);
    key.io = static_cast<Io>(record.io);
    key.part = static_cast<uint32_t>(record.part_offset / kPartBytes);
    Pending pending{EncodeIndexKey(key), &frame, &record, place};
    if (record.placement.length > 0) {
      MSITD_ASSIGN_OR_RETURN(pending.placement, ids.IdOf(record.placement));
    }
    if (record.part_offset == 0) {
      MSITD_RETURN_IF_ERROR(NumberExtra(extra, ids, pending));
    }
    out.push_back(pending);
  }
  return absl::OkStatus();
}

void FillExtras(const Pending& pending, const chunk::RecordExtra& extra,
                IndexValue& out) {
  const chunk::RecordDescriptor& record = *pending.record;
  out.requires_grad = chunk::RequiresGradOf(record);
  out.has_value = extra.has_value();
  if (out.has_value) out.value = pending.frame->chunk->Text(extra.value);
  out.stack = pending.stack;
  if (!extra.is_alias()) return;
  out.alias_op = pending.alias_op;
  out.alias_index = pending.alias_index;
  out.alias_call = static_cast<uint32_t>(extra.alias_call);
  out.alias_io = static_cast<Io>(extra.alias_io);
}

// Returns the counter for records of the kind.
uint64_t& CountOf(RecordKind kind, RunCounters& counters) {
  if (kind == RecordKind::kTensor) return counters.tensor_count;
  return kind == RecordKind::kStatistics ? counters.statistics_count
                                         : counters.value_count;
}

void FillValue(const Pending& pending, IndexValue& out) {
  const chunk::Chunk& chunk = *pending.frame->chunk;
  const chunk::RecordDescriptor& record = *pending.record;
  const auto dims = chunk.Dims(record);
  out.dtype = static_cast<DType>(record.dtype);
  out.has_bytes = chunk.kept() == chunk::Kept::kAll;
  out.has_sample = chunk.kept() == chunk::Kept::kSample;
  out.dims.assign(dims.begin(), dims.end());
  out.tensor_bytes = record.tensor_bytes;
  out.sequence = record.sequence;
  out.segment_id = chunk.header().segment_id;
  out.offset =
      chunk.header().frame_offset + chunk.head().size() + pending.place.offset;
  out.hash = record.hash;
  out.sample_hash = record.sample_hash;
  out.summary = record.summary;
  out.is_claimed = chunk::IsClaimed(record);
  out.placement = pending.placement;
  out.ClearExtras();
  if (record.flags == 0) return;
  out.kind = chunk::KindOf(record);
  const chunk::RecordExtra extra = chunk.ExtraOf(record);
  if (extra.is_alias()) {
    out.segment_id = record.bytes_segment_id;
    out.offset = record.bytes_offset;
  }
  if (record.part_offset == 0) FillExtras(pending, extra, out);
}

// Computes the changes that one Commit will write.
//
// The records are sorted by key, then by arrival, so that all records of a
// tensor form a group and the first one of each key was received first. The
// distinct keys are looked up with one MultiGet; keys after the last key of
// their run, rank and device are new without a lookup. Each group has a
// reference that its parts must match: an entry of the tensor if the index has
// one, otherwise the record received first. The first matching record of a key
// is written, unless the index already has the key. Every other record is
// counted as a duplicate or a conflict.
class Batch {
 public:
  Batch(IndexDb& db, RunTable& runs, LastKeys& last_keys,
        const LogFrame* first_frame, std::vector<Pending> pending)
      : first_frame_(first_frame),
        db_(db),
        runs_(runs),
        last_keys_(last_keys),
        pending_(std::move(pending)),
        changes_(pending_.size() * kChangeBytes) {}

  // Computes changes() and the counts below.
  absl::Status Run();
  void CountDangling(const Dangling& dangling);
  // Records that the changes are in the index.
  void Accept();

  rocksdb::WriteBatch& changes() { return changes_; }
  const IndexOutcome& outcome() const { return outcome_; }
  // Counters to add to each run.
  const std::map<uint64_t, RunCounters>& added() const { return added_; }
  // Payload bytes by (segment, run).
  const std::map<std::pair<uint64_t, uint64_t>, uint64_t>& live() const {
    return live_;
  }
  // New placements of the tensors of a run, by (run, name).
  const std::set<std::pair<uint64_t, uint32_t>>& placements() const {
    return placements_;
  }
  // Repeated records and records with a digest, for each stream that has some.
  const std::map<StreamKey, StreamRepeats>& repeats() const { return repeats_; }

 private:
  // The records of one tensor: [begin, end) of order_. Its distinct keys begin
  // at `first_key` of places_.
  struct Group {
    size_t begin;
    size_t end;
    size_t first_key;
  };
  static constexpr uint32_t kNotThere = UINT32_MAX;
  // The usual size of a record in changes_.
  static constexpr size_t kChangeBytes = 192;

  std::string_view KeyAt(size_t i) const {
    return View(pending_[order_[i]].key);
  }
  std::string_view PrefixAt(size_t i) const {
    return TensorPrefix(pending_[order_[i]].key);
  }
  std::string_view DevicePrefixAt(size_t i) const {
    return DevicePrefix(pending_[order_[i]].key);
  }

  void Sort();
  absl::Status LookUp();
  // Returns the entry of the distinct key with this number; null if there is
  // none.
  const rocksdb::PinnableSlice* Found(size_t key) const {
    return places_[key] == kNotThere ? nullptr : &found_[places_[key]];
  }
  // The entries of added_ and live_ that a record counts for.
  struct Totals {
    RunCounters* added = nullptr;
    uint64_t* live = nullptr;
  };

  Totals TotalsOf(const Pending& pending);
  absl::Status PutGroup(const Group& group);
  // Stores the value that all parts of the tensor must match in reference_.
  // True if the index already has a part of the tensor.
  absl::StatusOr<bool> FindReference(const Group& group);
  absl::StatusOr<bool> FindAnyPart(std::string_view prefix);
  // True if the run may have tensors whose first part is missing.
  bool MayBeHeadless(RunId run);
  void Put(const Pending& pending, bool is_new_tensor);
  // Counts a record that is written, if it has a digest of its own.
  void CountDigest(const Pending& pending);
  // `is_new_conflict`: no part of the tensor was counted as a conflict before.
  void CountRepeat(const Pending& pending, bool is_equal, bool is_new_conflict);

  const LogFrame* const first_frame_;
  IndexDb& db_;
  RunTable& runs_;
  LastKeys& last_keys_;
  const std::vector<Pending> pending_;
  std::vector<uint32_t> order_;
  // For each distinct key in order: the position of its entry in found_, or
  // kNotThere.
  std::vector<uint32_t> places_;
  std::vector<rocksdb::PinnableSlice> found_;

  rocksdb::WriteBatch changes_;
  IndexOutcome outcome_;
  std::map<uint64_t, RunCounters> added_;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> live_;
  std::set<std::pair<uint64_t, uint32_t>> placements_;
  std::map<StreamKey, StreamRepeats> repeats_;

  // The totals of the frame that was counted last.
  const LogFrame* totals_frame_ = nullptr;
  Totals totals_;
  // True if the first part of the current group's tensor exists.
  bool has_first_part_ = false;
  // The run of the last call of MayBeHeadless, and its result.
  RunId headless_run_{};
  bool may_be_headless_ = false;

  IndexValue reference_;
  IndexValue existing_;
  IndexValue value_;
  std::string encoded_;
};

void Batch::Sort() {
  order_.resize(pending_.size());
  for (uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
  std::sort(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) {
    const int order = std::memcmp(pending_[a].key.data(),
                                  pending_[b].key.data(), kIndexKeyBytes);
    return order != 0 ? order < 0 : a < b;
  });
}

absl::Status Batch::LookUp() {
  std::vector<rocksdb::Slice> keys;
  std::vector<size_t> numbers;
  std::string_view last;
  for (size_t i = 0; i < order_.size(); ++i) {
    if (i != 0 && KeyAt(i) == KeyAt(i - 1)) continue;
    if (i == 0 || DevicePrefixAt(i) != DevicePrefixAt(i - 1)) {
      MSITD_ASSIGN_OR_RETURN(last, last_keys_.Find(pending_[order_[i]].key));
    }
    if (KeyAt(i) <= last) {
      keys.emplace_back(KeyAt(i));
      numbers.push_back(places_.size());
    }
    places_.push_back(kNotThere);
  }
  found_.resize(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  constexpr bool kSorted = true;
  db_.db().MultiGet(rocksdb::ReadOptions(), db_.table(Table::kTensor),
                    keys.size(), keys.data(), found_.data(), statuses.data(),
                    kSorted);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i].IsNotFound()) continue;
    MSITD_RETURN_IF_ERROR(ToStatus(statuses[i], "read index"));
    places_[numbers[i]] = static_cast<uint32_t>(i);
  }
  return absl::OkStatus();
}

void Batch::Accept() {
  for (size_t i = 0; i < order_.size(); ++i) {
    const bool is_last =
        i + 1 == order_.size() || DevicePrefixAt(i) != DevicePrefixAt(i + 1);
    if (is_last) last_keys_.Accept(pending_[order_[i]].key);
  }
}

absl::StatusOr<bool> Batch::FindAnyPart(std::string_view prefix) {
  const auto it = db_.Iterate(Table::kTensor, rocksdb::ReadOptions());
  it->Seek(prefix);
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read index"));
  if (!it->Valid() || !it->key().starts_with(prefix)) return false;
  const auto key = DecodeIndexKey(it->key().ToStringView());
  if (!key.has_value()) return IndexCorrupt("tensor");
  has_first_part_ = key->part == 0;
  if (!DecodeIndexValue(it->value().ToStringView(), reference_)) {
    return IndexCorrupt("tensor");
  }
  return true;
}

bool Batch::MayBeHeadless(RunId run) {
  if (run != headless_run_) {
    const absl::StatusOr<RunBrief> info = runs_.BriefById(run);
    headless_run_ = run;
    may_be_headless_ = info.ok() && info->counters.headless_count > 0;
  }
  return may_be_headless_;
}

absl::StatusOr<bool> Batch::FindReference(const Group& group) {
  uint32_t earliest = order_[group.begin];
  bool has_many_parts = false;
  size_t key = group.first_key;
  for (size_t i = group.begin; i < group.end; ++i) {
    if (i != group.begin && KeyAt(i) != KeyAt(i - 1)) ++key;
    if (const rocksdb::PinnableSlice* entry = Found(key)) {
      if (!DecodeIndexValue(entry->ToStringView(), reference_)) {
        return IndexCorrupt("tensor");
      }
      return true;
    }
    earliest = std::min(earliest, order_[i]);
    has_many_parts |= pending_[order_[i]].record->tensor_bytes > kPartBytes;
  }
  // Parts with other keys may have been received earlier. A tensor of one part
  // has none, unless the run has parts without a first part. The search is
  // therefore done only for such runs, and for larger tensors.
  const RunId run = pending_[order_[group.begin]].frame->run;
  if (has_many_parts || MayBeHeadless(run)) {
    MSITD_ASSIGN_OR_RETURN(const bool is_there,
                           FindAnyPart(PrefixAt(group.begin)));
    if (is_there) return true;
  }
  FillValue(pending_[earliest], reference_);
  return false;
}

Batch::Totals Batch::TotalsOf(const Pending& pending) {
  if (pending.frame != totals_frame_) {
    const auto run = static_cast<uint64_t>(pending.frame->run);
    const uint64_t segment = pending.frame->chunk->header().segment_id;
    totals_frame_ = pending.frame;
    totals_ = {&added_[run], &live_[{segment, run}]};
  }
  return totals_;
}

void Batch::Put(const Pending& pending, bool is_new_tensor) {
  EncodeIndexValue(value_, encoded_);
  db_.Put(changes_, Table::kTensor, View(pending.key), encoded_);
  const uint64_t bytes = pending.place.bytes;
  const auto run = static_cast<uint64_t>(pending.frame->run);
  const Totals totals = TotalsOf(pending);
  RunCounters& added = *totals.added;
  if (is_new_tensor) {
    ++CountOf(value_.kind, added);
    added.document_count += value_.kind == RecordKind::kDocument ? 1 : 0;
  }
  added.token_end = std::max(added.token_end, pending.record->token + 1);
  if (pending.record->part_offset == 0) has_first_part_ = true;
  added.headless_count += has_first_part_ ? 0 : 1;
  added.payload_bytes += bytes;
  *totals.live += bytes;
  if (value_.placement != 0) placements_.emplace(run, value_.placement);
  outcome_.record_count += 1;
  outcome_.payload_bytes += bytes;
  if (chunk::HasDigest(*pending.record)) CountDigest(pending);
}

void Batch::CountDigest(const Pending& pending) {
  const chunk::RecordDescriptor& record = *pending.record;
  StreamRepeats& counts =
      repeats_[StreamOf(*pending.frame->chunk, pending.frame->run)];
  if (record.part_offset == 0) ++counts.claimed_count;
  if (chunk::IsClaimed(record)) return;
  ++counts.checked_count;
  ++outcome_.checked_digest_count;
  if ((record.flags & chunk::kFalseDigestFlag) == 0) return;
  ++counts.false_count;
  ++outcome_.false_digest_count;
}

void Batch::CountRepeat(const Pending& pending, bool is_equal,
                        bool is_new_conflict) {
  RunCounters& added = added_[static_cast<uint64_t>(pending.frame->run)];
  StreamRepeats& repeats =
      repeats_[StreamOf(*pending.frame->chunk, pending.frame->run)];
  if (pending.record->part_offset == 0) ++repeats.repeated_count;
  if (is_equal) {
    ++added.duplicate_count;
    ++outcome_.duplicate_count;
  } else {
    ++added.conflict_count;
    ++outcome_.conflict_count;
    ++outcome_.frame_conflicts[pending.frame - first_frame_];
    const bool is_whole = pending.record->tensor_bytes <= kPartBytes;
    if (is_whole || is_new_conflict) ++repeats.conflict_count;
  }
}

void Batch::CountDangling(const Dangling& dangling) {
  const LogFrame& frame = *dangling.frame;
  ++outcome_.dangling_count;
  const auto run = static_cast<uint64_t>(frame.run);
  ++added_[run].dangling_count;
  live_.try_emplace({frame.chunk->header().segment_id, run});
  if (!dangling.is_first_part) return;
  ++repeats_[StreamOf(*frame.chunk, frame.run)].dangling_count;
}

absl::Status Batch::PutGroup(const Group& group) {
  has_first_part_ = false;
  MSITD_ASSIGN_OR_RETURN(bool is_there, FindReference(group));
  if (!is_there && group.end - group.begin == 1) {
    std::swap(value_, reference_);
    Put(pending_[order_[group.begin]], true);
    return absl::OkStatus();
  }
  size_t key = group.first_key;
  // Hash of the record that has the current key, if there is one.
  ContentHash holder;
  bool has_holder = false;
  bool has_conflict = false;
  for (size_t i = group.begin; i < group.end; ++i) {
    if (i == group.begin || KeyAt(i) != KeyAt(i - 1)) {
      if (i != group.begin) ++key;
      const rocksdb::PinnableSlice* entry = Found(key);
      has_holder = entry != nullptr;
      if (has_holder) {
        if (!DecodeIndexValue(entry->ToStringView(), existing_)) {
          return IndexCorrupt("tensor");
        }
        holder = existing_.hash;
        if (pending_[order_[i]].record->part_offset == 0) {
          has_first_part_ = true;
        }
      }
    }
    const Pending& pending = pending_[order_[i]];
    FillValue(pending, value_);
    const bool agrees = value_.SameTensor(reference_);
    if (agrees && !has_holder) {
      Put(pending, !is_there);
      is_there = true;
      has_holder = true;
      holder = value_.hash;
    } else {
      const bool is_equal = agrees && holder == value_.hash;
      CountRepeat(pending, is_equal, !has_conflict);
      has_conflict |= !is_equal;
    }
  }
  return absl::OkStatus();
}

absl::Status Batch::Run() {
  for (const Pending& pending : pending_) {
    live_.try_emplace({pending.frame->chunk->header().segment_id,
                       static_cast<uint64_t>(pending.frame->run)});
  }
  Sort();
  MSITD_RETURN_IF_ERROR(LookUp());
  size_t key = 0;
  for (size_t begin = 0; begin < order_.size();) {
    const Group first{begin, begin, key};
    size_t end = begin;
    while (end < order_.size() && PrefixAt(end) == PrefixAt(begin)) {
      if (end == begin || KeyAt(end) != KeyAt(end - 1)) ++key;
      ++end;
    }
    MSITD_RETURN_IF_ERROR(PutGroup({begin, end, first.first_key}));
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace

struct FrameIndexer::Prepared::Work {
  Work(NewNames new_names, std::unique_ptr<Batch> prepared)
      : names(std::move(new_names)), batch(std::move(prepared)) {}

  NewNames names;
  std::unique_ptr<Batch> batch;
  std::map<uint64_t, RunCounters> totals;
};

FrameIndexer::Prepared::Prepared(std::unique_ptr<Work> work)
    : work_(std::move(work)) {}
FrameIndexer::Prepared::Prepared(Prepared&&) noexcept = default;
FrameIndexer::Prepared::~Prepared() = default;

absl::StatusOr<FrameIndexer::Prepared> FrameIndexer::Prepare(
    std::span<const LogFrame> frames, const LogPosition& position) {
  NewNames names(names_);
  std::vector<Pending> pending;
  std::vector<Dangling> dangling;
  std::map<StreamKey, uint64_t> chunk_counts;
  for (const LogFrame& frame : frames) {
    MSITD_RETURN_IF_ERROR(AppendRecordsOf(frame, names, pending, dangling));
    if (!frame.keep_stream) continue;
    uint64_t& count = chunk_counts[StreamOf(*frame.chunk, frame.run)];
    count = std::max(count, frame.chunk->header().chunk_sequence + 1);
  }
  auto work = std::make_unique<Prepared::Work>(
      std::move(names),
      std::make_unique<Batch>(db_, runs_, last_keys_, frames.data(),
                              std::move(pending)));
  Batch& batch = *work->batch;
  MSITD_RETURN_IF_ERROR(batch.Run());
  for (const Dangling& one : dangling) batch.CountDangling(one);

  rocksdb::WriteBatch& changes = batch.changes();
  work->names.AppendTo(changes);
  for (const auto& [run, added] : batch.added()) {
    MSITD_ASSIGN_OR_RETURN(const RunBrief info, runs_.BriefById(RunId{run}));
    work->totals[run] = Sum(info.counters, added);
    runs_.AppendCountersTo(changes, RunId{run}, work->totals[run]);
  }
  for (const auto& [place, bytes] : batch.live()) {
    MSITD_RETURN_IF_ERROR(segments_.AppendLiveTo(
        changes, SegmentId{place.first}, RunId{place.second}, bytes));
  }
  for (const auto& [run, placement] : batch.placements()) {
    placements_.AppendTo(changes, RunId{run}, placement);
  }
  for (const auto& [stream, count] : chunk_counts) {
    streams_.AppendTo(changes, stream, count);
  }
  for (const auto& [stream, added] : batch.repeats()) {
    MSITD_ASSIGN_OR_RETURN(const StreamRepeats before,
                           coverage_.Repeats(stream));
    coverage_.AppendTo(changes, stream, Sum(before, added));
  }
  AppendPositionTo(changes, db_, position);
  return Prepared(std::move(work));
}

absl::StatusOr<IndexOutcome> FrameIndexer::Commit(Prepared prepared) {
  Prepared::Work& work = *prepared.work_;
  absl::Status status = db_.WriteUnlogged(work.batch->changes());
  if (!status.ok()) {
    last_keys_.Forget();
    return status;
  }
  work.batch->Accept();
  work.names.Accept();
  for (const auto& [run, counters] : work.totals) {
    runs_.AcceptCounters(RunId{run}, counters);
  }
  return work.batch->outcome();
}

}  // namespace msitd::storage
