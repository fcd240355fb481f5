// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "protos/base/selector.h"
#include "protos/base/summary.h"
#include "storage/batch/entry_batch.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

namespace msitd::query {

// What goes into a GroupDigest. Another version says nothing about this one.
inline constexpr int kGroupDigestVersion = 1;

// All records of a run at one (rank, device, token), of every kind: what a
// comparison can see of them. That is not where their bytes lie, nor their
// stacks, nor whose bytes they share.
struct GroupDigest {
  storage::Coordinate at;
  uint64_t record_count = 0;
  ContentHash hash;

  friend bool operator==(const GroupDigest&, const GroupDigest&) = default;
};

// Makes the digests of a run in primary order. The hash of a group is the sum
// of those of its records: stores that learned of names in another order have
// the same one.
//
// Thread-compatible; the reader outlives it.
class GroupDigestScan {
 public:
  // Of `selector`, only ranks, devices and tokens count. `position` is empty or
  // from an earlier scan of the run with them.
  //
  // Errors: those of RunReader::Scan.
  static absl::StatusOr<std::unique_ptr<GroupDigestScan>> Begin(
      storage::RunReader& run, const Selector& selector,
      std::string_view position);

  // Puts the next digest into `out`; false at the end. `stop` is asked as by
  // TensorScan; a later call goes on where it ended this one.
  //
  // Errors: those of TensorScan::Next.
  absl::StatusOr<bool> Next(GroupDigest& out, storage::StopCheck stop);

  // Stands for "behind the last digest", or for the beginning.
  const std::string& position() const { return position_; }

 private:
  explicit GroupDigestScan(std::string_view position) : position_(position) {}

  std::unique_ptr<storage::TensorScan> scan_;
  std::string position_;
  // Of the records that are not in a digest yet.
  std::optional<GroupDigest> open_;
  std::string open_end_;  // Behind the last of them.
  bool is_over_ = false;
  storage::TensorInfo entry_;
  storage::EntryHasher hasher_;
};

}  // namespace msitd::query
