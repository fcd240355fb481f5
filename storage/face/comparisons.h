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

// Comparisons: documents and their rows, opaque to the store. Ids ascend from
// 1, rows from 0. Documents are durable on return; rows with the next document.
// Once all runs of a comparison are deleted, it is removed in the background.
//
// NOT_FOUND for a comparison that is not there; RESOURCE_EXHAUSTED (DISK_FULL)
// for a new document or rows that have no room. Thread-safe.
class Comparisons {
 public:
  virtual ~Comparisons() = default;

  virtual absl::StatusOr<uint64_t> CreateComparison(
      std::string_view document, std::span<const std::string> runs) = 0;
  // The same for a copy of a comparison that had number `wanted`: it has that
  // again if no comparison here had it or a greater one, and it is no more than
  // kNumbersSkippedMax beyond those.
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
  // The ids of those that were made for a run, above `after`, at most `limit`.
  virtual absl::StatusOr<std::vector<uint64_t>> ListComparisonsOf(
      std::string_view run, uint64_t after, size_t limit) = 0;
  virtual absl::Status DeleteComparison(uint64_t id) = 0;

  // FAILED_PRECONDITION for rows that would leave a gap.
  virtual absl::Status PutComparisonRows(uint64_t id, uint64_t first_row,
                                         std::span<const std::string> rows) = 0;
  virtual absl::StatusOr<std::vector<std::string>> GetComparisonRows(
      uint64_t id, uint64_t first_row, size_t limit) = 0;
};

}  // namespace msitd::storage
