// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"

namespace msitd::storage {

// Documents and rows of comparisons. See Comparisons, whose functions of the
// same meaning call these. NOT_FOUND with COMPARISON_NOT_FOUND for an id that
// is not there. Thread-safe.
//
// Rows are kept in blocks of kRowsMax: an entry for each of them would cost
// more than what is in it.
class ComparisonTable {
 public:
  explicit ComparisonTable(IndexDb& db) : db_(db) {}

  // It goes with the last of `runs` that goes.
  absl::StatusOr<uint64_t> Create(std::string_view document,
                                  std::span<const RunId> runs);
  absl::Status Put(uint64_t id, std::string_view document);
  absl::StatusOr<std::string> Get(uint64_t id);
  absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>> List(
      uint64_t after, size_t limit);
  absl::Status Delete(uint64_t id);
  // One that is to go with the run, or with others; nothing if there is none.
  absl::StatusOr<std::optional<uint64_t>> FirstOf(RunId run);
  // The run has gone: removes the comparison if no other of its runs is left,
  // and gives its room back.
  absl::Status Leave(RunId run, uint64_t id);
  absl::Status PutRows(uint64_t id, uint64_t first_row,
                       std::span<const std::string> rows);
  absl::StatusOr<std::vector<std::string>> GetRows(uint64_t id,
                                                   uint64_t first_row,
                                                   size_t limit);

 private:
  static std::string BlockKey(uint64_t id, uint64_t block);
  // Reads the rows of a block; none if there is no such block.
  absl::StatusOr<std::vector<std::string>> GetBlock(uint64_t id,
                                                    uint64_t block);
  // FAILED_PRECONDITION if the rows were stored one by one, which nobody reads
  // any more.
  absl::Status CheckBlocks(uint64_t id);
  // FAILED_PRECONDITION unless `row` is 0 or the one before it is there.
  absl::Status CheckFollows(uint64_t id, uint64_t row);

  absl::Status AppendRemovalTo(rocksdb::WriteBatch& batch, uint64_t id);

  IndexDb& db_;
  // Makes a change of a comparison and the check that it is there one step.
  Mutex mu_;
};

}  // namespace msitd::storage
