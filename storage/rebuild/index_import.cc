// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/index_import.h"

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protos/base/byte_codec.h"
#include "protos/chunk/piecewise_hash.h"
#include "protos/status/status.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/index_value.h"
#include "storage/index/db/row_block.h"
#include "storage/index/table/attachment_table.h"
#include "storage/index/table/continuation_table.h"
#include "storage/index/table/gone_table.h"

namespace msitd::storage {
namespace {

constexpr size_t kBatchBytesMax = size_t{4} << 20;

// Lengths of keys; docs/format/index.md has their fields.
constexpr size_t kCoverageKeyBytes = 21;
constexpr size_t kAttachmentPrefixBytes = 9;
constexpr size_t kNumberKeyBytes = 9;
constexpr size_t kBlockKeyBytes = 17;
constexpr size_t kExpiryKeyBytes = 17;
constexpr size_t kSharedKeyBytes = 29;

uint64_t NumberAt(std::string_view key, size_t offset) {
  return GetBigEndian(key.data() + offset, 8);
}

class Import {
 public:
  Import(IndexSalvage& old, const RunChoice& runs, IndexDb& into)
      : old_(old), runs_(runs), into_(into) {}

  absl::StatusOr<ImportCounts> Run() {
    MSITD_RETURN_IF_ERROR(PutRuns());
    MSITD_RETURN_IF_ERROR(CopyCoverage());
    MSITD_RETURN_IF_ERROR(CopyContinuations());
    MSITD_RETURN_IF_ERROR(CopyAttachments());
    MSITD_RETURN_IF_ERROR(CopyComparisons());
    MSITD_RETURN_IF_ERROR(CopySegmentMarks());
    MSITD_RETURN_IF_ERROR(CopyClock());
    MSITD_RETURN_IF_ERROR(Write());
    MSITD_RETURN_IF_ERROR(into_.Flush());
    return counts_;
  }

 private:
  absl::Status Put(Table table, std::string_view key, std::string_view value) {
    into_.Put(batch_, table, key, value);
    return batch_.GetDataSize() < kBatchBytesMax ? absl::OkStatus() : Write();
  }

  absl::Status Write() {
    if (batch_.Count() == 0) return absl::OkStatus();
    MSITD_RETURN_IF_ERROR(into_.WriteUnlogged(batch_));
    batch_.Clear();
    return absl::OkStatus();
  }

  absl::Status PutRuns() {
    for (const std::vector<RunInfo>* runs : {&runs_.kept, &runs_.recovered}) {
      for (const RunInfo& run : *runs) {
        MSITD_RETURN_IF_ERROR(
            Put(Table::kRun, "r" + run.spec.name, EncodeRun(run)));
      }
    }
    for (const uint64_t run : runs_.hidden) {
      const auto stage = static_cast<uint8_t>(GoneTable::Stage::kHidden);
      MSITD_RETURN_IF_ERROR(
          Put(Table::kRun, RunPrefix('g', run), EncodeGoneStage(stage)));
    }
    return Put(Table::kMeta, kNextRunIdKey, BigEndianKey(runs_.next_run_id));
  }

  // The key begins with a letter and the number of a run that is there.
  bool IsOfRun(std::string_view key) const {
    return key.size() >= kNumberKeyBytes && runs_.Contains(NumberAt(key, 1));
  }

  absl::Status CopyCoverage() {
    return old_.ForEach(
        Table::kRun, "s", [&](std::string_view key, std::string_view value) {
          StreamCoverage coverage;
          if (key.size() != kCoverageKeyBytes || !IsOfRun(key) ||
              !DecodeCoverage(value, coverage)) {
            return absl::OkStatus();
          }
          return Put(Table::kRun, key, value);
        });
  }

  absl::Status CopyContinuations() {
    // Numbers of ranks mean nothing without the numbers of the jobs.
    std::set<uint64_t> runs;
    MSITD_RETURN_IF_ERROR(
        old_.ForEach(Table::kRun, std::string_view(&kContinuationsTag, 1),
                     [&](std::string_view key, std::string_view value) {
                       std::vector<Continuation> jobs;
                       if (key.size() != kNumberKeyBytes || !IsOfRun(key) ||
                           !DecodeContinuations(value, jobs)) {
                         return absl::OkStatus();
                       }
                       runs.insert(NumberAt(key, 1));
                       return Put(Table::kRun, key, value);
                     }));
    return old_.ForEach(Table::kRun, std::string_view(&kRankContinuationTag, 1),
                        [&](std::string_view key, std::string_view value) {
                          RankContinuation continuation;
                          if (key.size() != kNumberKeyBytes + 4 ||
                              !runs.contains(NumberAt(key, 1)) ||
                              !DecodeRankContinuation(value, continuation)) {
                            return absl::OkStatus();
                          }
                          return Put(Table::kRun, key, value);
                        });
  }

  // Copies the bytes of an attachment; false if they are not all there.
  absl::StatusOr<bool> CopyPieces(const AttachmentInfo& info) {
    chunk::PiecewiseHash hash;
    for (uint64_t offset = 0; offset < info.size_bytes;
         offset += AttachmentTable::kPieceBytes) {
      const std::string key =
          RunPrefix('b', info.id) +
          BigEndianKey(offset / AttachmentTable::kPieceBytes);
      const std::optional<std::string> piece = old_.Get(Table::kRun, key);
      const uint64_t bytes = std::min<uint64_t>(AttachmentTable::kPieceBytes,
                                                info.size_bytes - offset);
      if (!piece.has_value() || piece->size() != bytes) return false;
      hash.Add(*piece);
      MSITD_RETURN_IF_ERROR(Put(Table::kRun, key, *piece));
    }
    return hash.Get() == info.hash;
  }

  absl::Status CopyAttachments() {
    std::map<std::string, std::string> entries;
    uint64_t next = 1;
    if (const auto value = old_.Get(Table::kMeta, "next_attachment_id");
        value.has_value() && value->size() == 8) {
      next = NumberAt(*value, 0);
    }
    MSITD_RETURN_IF_ERROR(old_.ForEach(
        Table::kRun, "a", [&](std::string_view key, std::string_view value) {
          if (key.size() > kAttachmentPrefixBytes && IsOfRun(key)) {
            entries[std::string(key)] = value;
          }
          return absl::OkStatus();
        }));
    for (const auto& [key, value] : entries) {
      AttachmentInfo info;
      bool is_whole = DecodeAttachment(value, info);
      if (is_whole) {
        next = std::max(next, info.id + 1);
        MSITD_ASSIGN_OR_RETURN(is_whole, CopyPieces(info));
      }
      if (is_whole) {
        ++counts_.attachment_count;
        MSITD_RETURN_IF_ERROR(Put(Table::kRun, key, value));
        continue;
      }
      ++counts_.lost_attachment_count;
      into_.DeleteRange(batch_, Table::kRun, RunPrefix('b', info.id),
                        RunPrefix('b', info.id + 1));
    }
    return Put(Table::kMeta, "next_attachment_id", BigEndianKey(next));
  }

  // Copies the rows of a comparison up to the first gap. True if there is none.
  absl::StatusOr<bool> CopyRows(uint64_t id) {
    std::set<uint64_t> blocks;
    MSITD_RETURN_IF_ERROR(old_.ForEach(
        Table::kComparison, RunPrefix('b', id),
        [&](std::string_view key, std::string_view value) {
          std::vector<std::string> rows;
          if (key.size() != kBlockKeyBytes || !DecodeRows(value, rows)) {
            return absl::OkStatus();
          }
          blocks.insert(NumberAt(key, 9));
          return Put(Table::kComparison, key, value);
        }));
    uint64_t end = 0;
    for (const uint64_t block : blocks) {
      if (block != end) break;
      ++end;
    }
    if (end == blocks.size()) return true;
    into_.DeleteRange(batch_, Table::kComparison,
                      RunPrefix('b', id) + BigEndianKey(end),
                      RunPrefix('b', id + 1));
    return false;
  }

  absl::Status CopyComparisons() {
    std::map<uint64_t, std::string> runs_of;
    std::set<uint64_t> ids;
    uint64_t next = 1;
    if (const auto value = old_.Get(Table::kMeta, "next_comparison_id");
        value.has_value() && value->size() == 8) {
      next = NumberAt(*value, 0);
    }
    MSITD_RETURN_IF_ERROR(old_.ForEach(
        Table::kComparison, "t",
        [&](std::string_view key, std::string_view value) {
          if (key.size() != kNumberKeyBytes || value.size() % 8 != 0) {
            return absl::OkStatus();
          }
          std::string& runs = runs_of[NumberAt(key, 1)];
          runs.clear();
          for (size_t i = 0; i < value.size(); i += 8) {
            if (runs_.Contains(NumberAt(value, i))) {
              runs += value.substr(i, 8);
            }
          }
          return absl::OkStatus();
        }));
    MSITD_RETURN_IF_ERROR(
        old_.ForEach(Table::kComparison, "d",
                     [&](std::string_view key, std::string_view value) {
                       if (key.size() != kNumberKeyBytes)
                         return absl::OkStatus();
                       const uint64_t id = NumberAt(key, 1);
                       // A comparison of runs that lie elsewhere has no runs.
                       // Others would have gone with the last of theirs.
                       const auto runs = runs_of.find(id);
                       if (runs != runs_of.end() && runs->second.empty()) {
                         return absl::OkStatus();
                       }
                       ids.insert(id);
                       return Put(Table::kComparison, key, value);
                     }));
    for (const auto& [id, runs] : runs_of) {
      next = std::max(next, id + 1);
      if (runs.empty()) continue;
      if (!ids.contains(id)) {
        ++counts_.lost_comparison_count;
        continue;
      }
      MSITD_RETURN_IF_ERROR(Put(Table::kComparison, RunPrefix('t', id), runs));
      for (size_t i = 0; i < runs.size(); i += 8) {
        MSITD_RETURN_IF_ERROR(
            Put(Table::kComparison,
                RunPrefix('u', NumberAt(runs, i)) + BigEndianKey(id), ""));
      }
    }
    for (const uint64_t id : ids) {
      next = std::max(next, id + 1);
      ++counts_.comparison_count;
      MSITD_ASSIGN_OR_RETURN(const bool is_whole, CopyRows(id));
      if (!is_whole) ++counts_.cut_comparison_count;
    }
    return Put(Table::kMeta, "next_comparison_id", BigEndianKey(next));
  }

  // Marks of bytes that were given up only grow, so an old mark is true. All
  // else is taken only from a table that is whole: a place of shared bytes or a
  // range to be freed may otherwise belong to an earlier state.
  absl::Status CopySegmentMarks() {
    const bool is_complete = old_.IsComplete(Table::kSegment);
    return old_.ForEach(
        Table::kSegment, "", [&](std::string_view key, std::string_view value) {
          bool is_taken = false;
          ExpiryMark mark;
          BytePlace place;
          switch (key.empty() ? '\0' : key[0]) {
            case 'x':
              is_taken = key.size() == kExpiryKeyBytes && IsOfRun(key) &&
                         DecodeExpiryMark(value, mark);
              break;
            case 's':
              is_taken = is_complete && key.size() == kSharedKeyBytes &&
                         IsOfRun(key) && DecodeBytePlace(value, place);
              break;
            case 'd':
              is_taken = is_complete && key.size() == kNumberKeyBytes;
              break;
            case 'f':
            case 'n':
              is_taken = is_complete && key.size() == 1;
              break;
            default:
              break;
          }
          return is_taken ? Put(Table::kSegment, key, value) : absl::OkStatus();
        });
  }

  absl::Status CopyClock() {
    const auto value = old_.Get(Table::kMeta, "clock");
    ClockMark mark;
    if (!value.has_value() || !DecodeClockMark(*value, mark)) {
      return absl::OkStatus();
    }
    return Put(Table::kMeta, "clock", *value);
  }

  IndexSalvage& old_;
  const RunChoice& runs_;
  IndexDb& into_;
  rocksdb::WriteBatch batch_;
  ImportCounts counts_;
};

}  // namespace

absl::StatusOr<ImportCounts> ImportOldIndex(IndexSalvage& old,
                                            const RunChoice& runs,
                                            IndexDb& into) {
  return Import(old, runs, into).Run();
}

}  // namespace msitd::storage
