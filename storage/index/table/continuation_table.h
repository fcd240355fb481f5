// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/continuations.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"

namespace msitd::storage {

// The points where jobs continue runs. They are stored in the index, not in
// memory, because the ranks of a launch may open their streams before and after
// a restart of the daemon. Thread-safe.
class ContinuationTable {
 public:
  explicit ContinuationTable(IndexDb& db) : db_(db) {}

  // Returns an empty value for a run that was never continued. DATA_LOSS if an
  // entry cannot be decoded.
  absl::StatusOr<RunContinuations> Get(RunId run, int32_t rank);

  void AppendTo(rocksdb::WriteBatch& batch, RunId run,
                const std::vector<Continuation>& jobs) const;
  void AppendTo(rocksdb::WriteBatch& batch, RunId run, int32_t rank,
                const RankContinuation& continuation) const;
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const;

 private:
  IndexDb& db_;
};

// Keys in Table::kRun begin with one of these letters and the id of the run.
inline constexpr char kContinuationsTag = 'j';
inline constexpr char kRankContinuationTag = 'k';

std::string EncodeContinuations(const std::vector<Continuation>& jobs);
bool DecodeContinuations(std::string_view bytes,
                         std::vector<Continuation>& out);
std::string EncodeRankContinuation(const RankContinuation& continuation);
bool DecodeRankContinuation(std::string_view bytes, RankContinuation& out);

}  // namespace msitd::storage
