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

// Version of the contents of a GroupDigest. Digests of different versions
// cannot be compared.
inline constexpr int kGroupDigestVersion = 1;

// Digest of all records of a run at one (rank, device, token), of every kind.
// It covers everything that a comparison can distinguish. It does not cover
// where the bytes are stored, stacks, or which records share bytes.
struct GroupDigest {
  storage::Coordinate at;
  uint64_t record_count = 0;
  ContentHash hash;

  friend bool operator==(const GroupDigest&, const GroupDigest&) = default;
};

// Computes the digests of a run in primary order. The hash of a group is the
// sum of the hashes of its records, so it does not depend on the order in which
// a store first received the names.
//
// Thread-compatible; the reader must outlive it.
class GroupDigestScan {
 public:
  // Only the ranks, devices and tokens of `selector` are used. `position` must
  // be empty or come from an earlier scan of the run with the same ranks,
  // devices and tokens.
  //
  // Errors: those of RunReader::Scan.
  static absl::StatusOr<std::unique_ptr<GroupDigestScan>> Begin(
      storage::RunReader& run, const Selector& selector,
      std::string_view position);

  // Stores the next digest in `out`. Returns false at the end. Calls `stop`
  // like TensorScan; after `stop` has ended a call, a later call continues
  // there.
  //
  // Errors: those of TensorScan::Next.
  absl::StatusOr<bool> Next(GroupDigest& out, storage::StopCheck stop);

  // The position after the last digest, or the position given to Begin.
  const std::string& position() const { return position_; }

 private:
  explicit GroupDigestScan(std::string_view position) : position_(position) {}

  std::unique_ptr<storage::TensorScan> scan_;
  std::string position_;
  // Of the records that are not part of a digest yet.
  std::optional<GroupDigest> open_;
  std::string open_end_;  // The position after the last of them.
  bool is_over_ = false;
  storage::TensorInfo entry_;
  storage::EntryHasher hasher_;
};

}  // namespace msitd::query
