// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/old_entries.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "protos/base/byte_codec.h"
#include "protos/base/sample.h"
#include "protos/status/status.h"
#include "storage/face/run_sums.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/index_value.h"

namespace msitd::storage {
namespace {

constexpr size_t kEntriesAtATime = 4096;
// Names of the old index that are remembered by their numbers.
constexpr size_t kNamesMax = size_t{1} << 18;

class OldEntries {
 public:
  OldEntries(IndexSalvage& old, const RunChoice& runs,
             const std::vector<SegmentFile>& files, ChunkIndex& index)
      : old_(old), runs_(runs), index_(index) {
    for (const SegmentFile& file : files) {
      if (!file.IsForeignTo(index.store_id())) {
        segments_.insert(ToNumber(file.id));
      }
    }
  }

  absl::StatusOr<OldEntriesCounts> Run() {
    MSITD_RETURN_IF_ERROR(old_.ForEach(
        Table::kTensor, "", [&](std::string_view key, std::string_view value) {
          return Look(key, value);
        }));
    MSITD_RETURN_IF_ERROR(Write());
    return counts_;
  }

 private:
  struct Entry {
    IndexKey key;
    IndexValue value;
  };

  absl::Status Look(std::string_view key_bytes, std::string_view value_bytes) {
    const std::optional<IndexKey> key = DecodeIndexKey(key_bytes);
    if (!key.has_value() || !runs_.Contains(key->run)) return absl::OkStatus();
    Entry entry{*key, {}};
    if (!DecodeIndexValue(value_bytes, entry.value) ||
        segments_.contains(entry.value.segment_id)) {
      return absl::OkStatus();
    }
    entries_.push_back(std::move(entry));
    return entries_.size() < kEntriesAtATime ? absl::OkStatus() : Write();
  }

  // Replaces the number of a name of the old index by that of the new one.
  absl::StatusOr<bool> Renumber(NewNames& names, uint32_t& id) {
    if (id == 0) return true;
    auto it = names_.find(id);
    if (it == names_.end()) {
      std::optional<std::string> name = old_.Get(Table::kName, NumberKey(id));
      if (!name.has_value()) return false;
      if (names_.size() >= kNamesMax) names_.clear();
      it = names_.emplace(id, *std::move(name)).first;
    }
    MSITD_ASSIGN_OR_RETURN(id, names.Intern(it->second));
    return true;
  }

  absl::StatusOr<bool> RenumberAll(NewNames& names, Entry& entry) {
    for (uint32_t* id : {&entry.key.device, &entry.key.op, &entry.key.index,
                         &entry.value.placement, &entry.value.stack,
                         &entry.value.alias_op, &entry.value.alias_index}) {
      MSITD_ASSIGN_OR_RETURN(const bool is_known, Renumber(names, *id));
      if (!is_known) return false;
    }
    return true;
  }

  // True if the index has a part of the tensor.
  absl::StatusOr<bool> HasTensor(std::string_view prefix) {
    const auto it = index_.db().Iterate(Table::kTensor, rocksdb::ReadOptions());
    it->Seek(prefix);
    MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read index"));
    return it->Valid() && it->key().starts_with(prefix);
  }

  void Count(const Entry& entry, bool is_new_tensor, uint64_t bytes) {
    RunCounters& added = added_[entry.key.run];
    if (is_new_tensor) {
      const RecordKind kind = entry.value.kind;
      ++(kind == RecordKind::kTensor       ? added.tensor_count
         : kind == RecordKind::kStatistics ? added.statistics_count
                                           : added.value_count);
      added.document_count += kind == RecordKind::kDocument ? 1 : 0;
    }
    added.token_end =
        std::max(added.token_end, static_cast<int64_t>(entry.key.token) + 1);
    added.payload_bytes += bytes;
    bytes_[{entry.value.segment_id, entry.key.run}] += bytes;
  }

  // The bytes that the entry stands for: none if it is an alias.
  static uint64_t BytesOf(const Entry& entry, bool is_alias) {
    const IndexValue& value = entry.value;
    if (is_alias || value.tensor_bytes == 0) return 0;
    if (value.has_bytes) return PartBytes(value.tensor_bytes, entry.key.part);
    if (!value.has_sample) return 0;
    return SampleOf(TensorPart{.dtype = value.dtype,
                               .tensor_bytes = value.tensor_bytes,
                               .offset = entry.key.part * kPartBytes})
        .bytes();
  }

  absl::Status Write() {
    NewNames names(index_.names());
    rocksdb::WriteBatch batch;
    std::set<std::string, std::less<>> keys;
    for (Entry& entry : entries_) {
      MSITD_ASSIGN_OR_RETURN(const bool is_named, RenumberAll(names, entry));
      if (!is_named) {
        ++counts_.lost_count;
        continue;
      }
      const EncodedKey encoded = EncodeIndexKey(entry.key);
      const std::string_view key = View(encoded);
      MSITD_ASSIGN_OR_RETURN(const auto known,
                             index_.db().Get(Table::kTensor, key));
      // Entries may be visited twice.
      if (known.has_value() || !keys.emplace(key).second) continue;
      MSITD_ASSIGN_OR_RETURN(bool has_tensor, HasTensor(TensorPrefix(encoded)));
      has_tensor |= last_tensor_ == TensorPrefix(encoded);
      if (entry.key.part == 0) {
        is_alias_ = entry.value.alias_op != 0;
      } else if (last_tensor_ != TensorPrefix(encoded)) {
        is_alias_ = false;
      }
      last_tensor_ = TensorPrefix(encoded);
      std::string value;
      EncodeIndexValue(entry.value, value);
      index_.db().Put(batch, Table::kTensor, key, value);
      if (entry.value.placement != 0) {
        index_.placements().AppendTo(batch, RunId{entry.key.run},
                                     entry.value.placement);
      }
      Count(entry, !has_tensor, BytesOf(entry, is_alias_));
      ++counts_.kept_count;
    }
    entries_.clear();
    names.AppendTo(batch);
    std::map<uint64_t, RunCounters> totals;
    for (const auto& [run, added] : added_) {
      MSITD_ASSIGN_OR_RETURN(const RunBrief brief,
                             index_.runs().BriefById(RunId{run}));
      totals[run] = Sum(brief.counters, added);
      index_.runs().AppendCountersTo(batch, RunId{run}, totals[run]);
    }
    added_.clear();
    MSITD_RETURN_IF_ERROR(index_.db().WriteUnlogged(batch));
    names.Accept();
    for (const auto& [run, total] : totals) {
      index_.runs().AcceptCounters(RunId{run}, total);
    }
    return MarkSegments();
  }

  // A segment that does not exist was removed after the bytes of its runs were
  // given up. If the old index has all marks and none for it, its file is
  // missing: then its bytes count as used, so that the store reports that.
  absl::Status MarkSegments() {
    for (const auto& [place, bytes] : bytes_) {
      const SegmentId segment{place.first};
      const RunId run{place.second};
      ExpiryMark mark = index_.expiry().Mark(segment, run);
      if (mark.end == ExpiryMark::kAll) continue;
      if (old_.IsComplete(Table::kSegment)) {
        rocksdb::WriteBatch batch;
        MSITD_RETURN_IF_ERROR(
            index_.segments().AppendLiveTo(batch, segment, run, bytes));
        MSITD_RETURN_IF_ERROR(index_.db().WriteUnlogged(batch));
        continue;
      }
      mark = {ExpiryMark::kAll, ExpiryMark::kAll, mark.bytes + bytes};
      MSITD_RETURN_IF_ERROR(index_.Expire(segment, run, mark));
    }
    bytes_.clear();
    return absl::OkStatus();
  }

  IndexSalvage& old_;
  const RunChoice& runs_;
  ChunkIndex& index_;
  std::set<uint64_t> segments_;
  std::vector<Entry> entries_;
  std::unordered_map<uint32_t, std::string> names_;
  std::string last_tensor_;  // Its prefix.
  bool is_alias_ = false;    // Of that tensor; only its first part says so.
  std::map<uint64_t, RunCounters> added_;
  // Payload by segment and run.
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> bytes_;
  OldEntriesCounts counts_;
};

}  // namespace

absl::StatusOr<OldEntriesCounts> TakeOldEntries(
    IndexSalvage& old, const RunChoice& runs,
    const std::vector<SegmentFile>& files, ChunkIndex& index) {
  return OldEntries(old, runs, files, index).Run();
}

}  // namespace msitd::storage
