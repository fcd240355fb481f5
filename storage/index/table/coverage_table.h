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

// What each stream was handed, as it told last, and what came of it again, as
// the frames have it. Stays with the run, unlike the stream table. Thread-safe.
class CoverageTable {
 public:
  explicit CoverageTable(IndexDb& db) : db_(db) {}

  // All 0 for a stream that told nothing.
  absl::StatusOr<StreamCoverage> Get(const StreamKey& stream);
  absl::StatusOr<StreamRepeats> Repeats(const StreamKey& stream);
  // One for each rank of the run of which there is something, in order.
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
