// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"
#include "storage/merge/run_share.h"
#include "storage/merge/split_rank.h"

namespace msitd::storage {

// Scans one split rank: merges scans of its shares, device by device, by
// ascending token. A share is not read before its first token is reached, so a
// rank that has moved once is read from one place after the other.
//
// The alternative, one scan for each row of tokens in one place, needs a
// request for each of them, which would be a million for tokens that alternate
// between two places.
class SplitRankScan final : public TensorScan {
 public:
  // `shares` and `split` must outlive the scan. `selector` must match the rank.
  // Begins at `position`.
  //
  // Errors: INVALID_ARGUMENT with PAGE_TOKEN_INVALID; those of Scan.
  static absl::StatusOr<std::unique_ptr<TensorScan>> Begin(
      std::span<const RunShare> shares, int32_t rank, const SplitRank& split,
      Selector selector, std::string_view position);

  // Errors: also DATA_LOSS if a share returns tokens that it has not listed in
  // this order.
  absl::StatusOr<bool> Next(TensorInfo& out, StopCheck stop) override;
  std::string position() const override;
  uint64_t incomplete_count() const override;

 private:
  // A share that has tokens of the current device.
  struct Source {
    size_t share = 0;
    int64_t token = 0;  // No later record of the share has a lower token.
    std::unique_ptr<TensorScan> scan;  // Null before it is needed.
    // Where the scan continues: before `next` if there is one.
    std::string position;
    TensorInfo next;
    bool has_next = false;
    bool is_over = false;
  };

  SplitRankScan(std::span<const RunShare> shares, int32_t rank,
                const SplitRank& split, Selector selector);

  // Sets sources_ for the device at device_, if there is one.
  void BeginDevice();
  // Null if no source has more records.
  Source* FirstSource();
  absl::Status ReadNext(Source& source, StopCheck stop);
  // Checks that `record` of `share` follows the previous record. Sets
  // `is_copy`.
  absl::Status Check(size_t share, const TensorInfo& record, bool& is_copy);
  bool SetPosition(std::string_view position);

  const std::span<const RunShare> shares_;
  const int32_t rank_;
  const Selector selector_;
  std::vector<const SplitDevice*> devices_;  // That match the selector.
  size_t device_ = 0;
  std::vector<Source> sources_;  // Ascending by share.
  int64_t last_token_ = -1;      // Token of the last record, or -1.
  size_t last_share_ = 0;
  uint64_t incomplete_count_ = 0;  // Count of the scans that have ended.
};

}  // namespace msitd::storage
