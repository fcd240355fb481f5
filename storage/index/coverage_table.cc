// SPDX-License-Identifier: Apache-2.0
#include "storage/index/coverage_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <optional>
#include <string>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "storage/index/index_value.h"

namespace msitd::storage {
namespace {

// Others of Table::kRun begin with other letters.
constexpr char kTag = 's';

std::string RunPrefix(uint64_t run) { return kTag + BigEndianKey(run); }

}  // namespace

absl::StatusOr<StreamCoverage> CoverageTable::Get(const StreamKey& stream) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db_.Get(Table::kRun, kTag + EncodeStreamKey(stream)));
  StreamCoverage coverage;
  if (value.has_value() && !DecodeCoverage(*value, coverage)) {
    return IndexCorrupt("run");
  }
  return coverage;
}

absl::StatusOr<std::vector<RankCoverage>> CoverageTable::Ranks(RunId run) {
  const std::string prefix = RunPrefix(static_cast<uint64_t>(run));
  std::vector<RankCoverage> ranks;
  const auto it = db_.Iterate(Table::kRun, rocksdb::ReadOptions());
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    StreamCoverage coverage;
    if (it->key().size() != 1 + kStreamKeyBytes ||
        !DecodeCoverage(it->value().ToStringView(), coverage)) {
      return IndexCorrupt("run");
    }
    const auto rank =
        static_cast<int32_t>(GetBigEndian(it->key().data() + prefix.size(), 4));
    if (ranks.empty() || ranks.back().rank != rank) {
      ranks.emplace_back().rank = rank;
    }
    ++ranks.back().stream_count;
    ranks.back().total = Sum(ranks.back().total, coverage);
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read coverage"));
  return ranks;
}

void CoverageTable::AppendTo(rocksdb::WriteBatch& batch,
                             const StreamKey& stream,
                             const StreamCoverage& coverage) const {
  db_.Put(batch, Table::kRun, kTag + EncodeStreamKey(stream),
          EncodeCoverage(coverage));
}

void CoverageTable::AppendRemovalTo(rocksdb::WriteBatch& batch,
                                    RunId run) const {
  const auto id = static_cast<uint64_t>(run);
  db_.DeleteRange(batch, Table::kRun, RunPrefix(id), RunPrefix(id + 1));
}

}  // namespace msitd::storage
