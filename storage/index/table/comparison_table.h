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

// Documents and rows of comparisons; see Comparisons, which calls these
// functions. Returns NOT_FOUND with COMPARISON_NOT_FOUND for an unknown id.
// Thread-safe.
//
// Rows are stored in blocks of kRowsMax, because an entry for each row would
// cost more than the row.
class ComparisonTable {
 public:
  explicit ComparisonTable(IndexDb& db) : db_(db) {}

  // The comparison is removed with the last of `runs`; see Leave. See
  // Comparisons::CreateComparisonAs for `wanted`; 0 for none.
  absl::StatusOr<uint64_t> Create(std::string_view document,
                                  std::span<const RunId> runs, uint64_t wanted);
  absl::Status Put(uint64_t id, std::string_view document);
  absl::StatusOr<std::string> Get(uint64_t id);
  absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>> List(
      uint64_t after, size_t limit);
  // Returns the ids above `after` of comparisons of `run`, in order.
  absl::StatusOr<std::vector<uint64_t>> ListOf(RunId run, uint64_t after,
                                               size_t limit);
  absl::Status Delete(uint64_t id);
  // Returns a comparison of `run`; nothing if there is none.
  absl::StatusOr<std::optional<uint64_t>> FirstOf(RunId run);
  // Records that the run was deleted. Removes the comparison if it has no other
  // run left.
  absl::Status Leave(RunId run, uint64_t id);
  // Reclaims the space of removed comparisons, one range of ids at a time;
  // returns true if there was none. Blocks as IndexDb::GiveRoomBack does, and
  // does not block other users.
  absl::StatusOr<bool> GiveRoomBack();
  absl::Status PutRows(uint64_t id, uint64_t first_row,
                       std::span<const std::string> rows);
  absl::StatusOr<std::vector<std::string>> GetRows(uint64_t id,
                                                   uint64_t first_row,
                                                   size_t limit);

 private:
  static std::string BlockKey(uint64_t id, uint64_t block);
  // Reads the rows of a block; empty if the block does not exist.
  absl::StatusOr<std::vector<std::string>> GetBlock(uint64_t id,
                                                    uint64_t block);
  // Returns FAILED_PRECONDITION if the rows were stored one by one, in a form
  // that is no longer supported.
  absl::Status CheckBlocks(uint64_t id);
  // Returns FAILED_PRECONDITION unless `row` is 0 or the previous row exists.
  absl::Status CheckFollows(uint64_t id, uint64_t row);

  absl::Status AppendRemovalTo(rocksdb::WriteBatch& batch, uint64_t id);
  // Returns the first removed comparisons that have no existing one between
  // them.
  absl::StatusOr<std::vector<uint64_t>> FreedTogether();

  IndexDb& db_;
  // Makes a change of a comparison and the check that it exists atomic.
  Mutex mu_;
};

}  // namespace msitd::storage
