// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace msitd::storage {

// Comparisons: documents and their rows, which the store does not interpret.
// Ids ascend from 1, rows from 0. Documents are durable on return; rows become
// durable with the next document. A comparison is removed in the background
// after all its runs are deleted.
//
// Returns NOT_FOUND for a comparison that does not exist, and
// RESOURCE_EXHAUSTED (DISK_FULL) if there is no space for a new document or
// rows. Thread-safe.
class Comparisons {
 public:
  virtual ~Comparisons() = default;

  virtual absl::StatusOr<uint64_t> CreateComparison(
      std::string_view document, std::span<const std::string> runs) = 0;
  // As CreateComparison, for a copy of a comparison that had number `wanted`.
  // It gets this number again if no comparison here had it or a higher one, and
  // if it is at most kNumbersSkippedMax above those.
  virtual absl::StatusOr<uint64_t> CreateComparisonAs(
      uint64_t wanted, std::string_view document,
      std::span<const std::string> runs) = 0;
  static constexpr uint64_t kNumbersSkippedMax = uint64_t{1} << 20;
  virtual absl::Status PutComparison(uint64_t id,
                                     std::string_view document) = 0;
  virtual absl::StatusOr<std::string> GetComparison(uint64_t id) = 0;
  // Returns at most `limit` comparisons with ids above `after`.
  virtual absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>>
  ListComparisons(uint64_t after, size_t limit) = 0;
  // Returns the ids of at most `limit` comparisons of a run with ids above
  // `after`.
  virtual absl::StatusOr<std::vector<uint64_t>> ListComparisonsOf(
      std::string_view run, uint64_t after, size_t limit) = 0;
  virtual absl::Status DeleteComparison(uint64_t id) = 0;

  // Returns FAILED_PRECONDITION for rows that would leave a gap.
  virtual absl::Status PutComparisonRows(uint64_t id, uint64_t first_row,
                                         std::span<const std::string> rows) = 0;
  virtual absl::StatusOr<std::vector<std::string>> GetComparisonRows(
      uint64_t id, uint64_t first_row, size_t limit) = 0;
};

}  // namespace msitd::storage
