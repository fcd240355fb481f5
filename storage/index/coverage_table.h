// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/stream_coverage.h"
#include "storage/index/index_db.h"
#include "storage/index/stream_table.h"
#include "storage/types.h"

namespace msitd::storage {

// What each stream was handed, as it told last. Stays with the run, unlike the
// stream table. Thread-safe.
class CoverageTable {
 public:
  explicit CoverageTable(IndexDb& db) : db_(db) {}

  // All 0 for a stream that told nothing.
  absl::StatusOr<StreamCoverage> Get(const StreamKey& stream);
  // One for each rank of the run whose streams told something, in order.
  absl::StatusOr<std::vector<RankCoverage>> Ranks(RunId run);

  void AppendTo(rocksdb::WriteBatch& batch, const StreamKey& stream,
                const StreamCoverage& coverage) const;
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const;

 private:
  IndexDb& db_;
};

}  // namespace msitd::storage
