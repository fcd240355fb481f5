// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"
#include "storage/merge/run_share.h"
#include "storage/merge/split_rank.h"

namespace msitd::storage {

// Adjacent ranks of a merged run that belong to one share, or a split rank.
struct RankStretch {
  size_t share = 0;
  std::vector<int32_t> ranks;        // Ascending.
  const SplitRank* split = nullptr;  // Null for ranks that are in one share.
};

// Scans the stretches of a merged run one after the other. `stretches` are
// those that match the selector, ascending by rank and limited to its ranks.
class MergedScan final : public TensorScan {
 public:
  // `shares` and the split ranks must outlive the scan. Begins at `position`.
  //
  // Errors: INVALID_ARGUMENT with PAGE_TOKEN_INVALID; those of Scan.
  static absl::StatusOr<std::unique_ptr<TensorScan>> Begin(
      std::span<const RunShare> shares, std::vector<RankStretch> stretches,
      Selector selector, std::string_view position);

  absl::StatusOr<bool> Next(TensorInfo& out, StopCheck stop) override;
  std::string position() const override;
  uint64_t incomplete_count() const override;

 private:
  MergedScan(std::span<const RunShare> shares,
             std::vector<RankStretch> stretches, Selector selector)
      : shares_(shares),
        stretches_(std::move(stretches)),
        selector_(std::move(selector)) {}

  // Begins the scan of the stretch at `at_`, if there is one.
  absl::Status BeginStretch(std::string_view position);

  const std::span<const RunShare> shares_;
  const std::vector<RankStretch> stretches_;
  const Selector selector_;
  size_t at_ = 0;
  std::unique_ptr<TensorScan> scan_;  // Null after the last stretch.
  uint64_t incomplete_count_ = 0;     // Count of the previous stretches.
};

}  // namespace msitd::storage
