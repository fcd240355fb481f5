// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/stream_coverage.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"
#include "storage/index/table/stream_table.h"

namespace msitd::storage {

// The coverage that each stream reported last, and the repeated records in its
// frames. Unlike entries of the stream table, kept as long as the run.
// Thread-safe.
class CoverageTable {
 public:
  explicit CoverageTable(IndexDb& db) : db_(db) {}

  // Returns zeros for a stream that reported nothing.
  absl::StatusOr<StreamCoverage> Get(const StreamKey& stream);
  absl::StatusOr<StreamRepeats> Repeats(const StreamKey& stream);
  // Returns one element for each rank with a report or repeated records,
  // ascending.
  absl::StatusOr<std::vector<RankCoverage>> Ranks(RunId run);

  void AppendTo(rocksdb::WriteBatch& batch, const StreamKey& stream,
                const StreamCoverage& coverage) const;
  void AppendTo(rocksdb::WriteBatch& batch, const StreamKey& stream,
                const StreamRepeats& repeats) const;
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const;

 private:
  absl::Status AddRepeats(RunId run, std::map<int32_t, RankCoverage>& ranks);

  IndexDb& db_;
};

}  // namespace msitd::storage
