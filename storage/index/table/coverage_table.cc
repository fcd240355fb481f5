// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/coverage_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <optional>
#include <string>
#include <string_view>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "storage/face/run_sums.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/index_value.h"

namespace msitd::storage {
namespace {

// Other kinds of keys in Table::kRun begin with other letters.
constexpr char kCoverageTag = 's';
constexpr char kRepeatsTag = 't';

// Returns the rank in a key that begins with a RunPrefix.
int32_t RankOf(std::string_view key) {
  return static_cast<int32_t>(GetBigEndian(key.data() + 9, 4));
}

}  // namespace

absl::StatusOr<StreamCoverage> CoverageTable::Get(const StreamKey& stream) {
  MSITD_ASSIGN_OR_RETURN(
      const std::optional<std::string> value,
      db_.Get(Table::kRun, kCoverageTag + EncodeStreamKey(stream)));
  StreamCoverage coverage;
  if (value.has_value() && !DecodeCoverage(*value, coverage)) {
    return IndexCorrupt("run");
  }
  return coverage;
}

absl::StatusOr<StreamRepeats> CoverageTable::Repeats(const StreamKey& stream) {
  MSITD_ASSIGN_OR_RETURN(
      const std::optional<std::string> value,
      db_.Get(Table::kRun, kRepeatsTag + EncodeStreamKey(stream)));
  StreamRepeats repeats;
  if (value.has_value() && !DecodeRepeats(*value, repeats)) {
    return IndexCorrupt("run");
  }
  return repeats;
}

absl::StatusOr<std::vector<RankCoverage>> CoverageTable::Ranks(RunId run) {
  const std::string prefix =
      RunPrefix(kCoverageTag, static_cast<uint64_t>(run));
  std::map<int32_t, RankCoverage> ranks;
  const auto it = db_.Iterate(Table::kRun, rocksdb::ReadOptions());
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    StreamCoverage coverage;
    if (it->key().size() != 1 + kStreamKeyBytes ||
        !DecodeCoverage(it->value().ToStringView(), coverage)) {
      return IndexCorrupt("run");
    }
    RankCoverage& rank = ranks[RankOf(it->key().ToStringView())];
    ++rank.stream_count;
    rank.total = Sum(rank.total, coverage);
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read coverage"));
  MSITD_RETURN_IF_ERROR(AddRepeats(run, ranks));
  std::vector<RankCoverage> out;
  for (auto& [number, rank] : ranks) {
    rank.rank = number;
    out.push_back(rank);
  }
  return out;
}

absl::Status CoverageTable::AddRepeats(RunId run,
                                       std::map<int32_t, RankCoverage>& ranks) {
  const std::string prefix = RunPrefix(kRepeatsTag, static_cast<uint64_t>(run));
  const auto it = db_.Iterate(Table::kRun, rocksdb::ReadOptions());
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    StreamRepeats repeats;
    if (it->key().size() != 1 + kStreamKeyBytes ||
        !DecodeRepeats(it->value().ToStringView(), repeats)) {
      return IndexCorrupt("run");
    }
    RankCoverage& rank = ranks[RankOf(it->key().ToStringView())];
    rank.repeats = Sum(rank.repeats, repeats);
  }
  return ToStatus(it->status(), "read coverage");
}

void CoverageTable::AppendTo(rocksdb::WriteBatch& batch,
                             const StreamKey& stream,
                             const StreamCoverage& coverage) const {
  db_.Put(batch, Table::kRun, kCoverageTag + EncodeStreamKey(stream),
          EncodeCoverage(coverage));
}

void CoverageTable::AppendTo(rocksdb::WriteBatch& batch,
                             const StreamKey& stream,
                             const StreamRepeats& repeats) const {
  db_.Put(batch, Table::kRun, kRepeatsTag + EncodeStreamKey(stream),
          EncodeRepeats(repeats));
}

void CoverageTable::AppendRemovalTo(rocksdb::WriteBatch& batch,
                                    RunId run) const {
  const auto id = static_cast<uint64_t>(run);
  for (const char tag : {kCoverageTag, kRepeatsTag}) {
    db_.DeleteRange(batch, Table::kRun, RunPrefix(tag, id),
                    RunPrefix(tag, id + 1));
  }
}

}  // namespace msitd::storage
