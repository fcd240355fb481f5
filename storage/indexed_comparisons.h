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
#include "protos/status/status.h"
#include "storage/disk_room.h"
#include "storage/face/comparisons.h"
#include "storage/index/index_gate.h"

namespace msitd::storage {

// The comparisons of a store, which are stored in its index. Thread-safe.
class IndexedComparisons final : public Comparisons {
 public:
  // `index` and `room` must outlive this object.
  IndexedComparisons(IndexGate& index, DiskRoom& room)
      : index_(index), room_(room) {}

  absl::StatusOr<uint64_t> CreateComparison(
      std::string_view document, std::span<const std::string> runs) override {
    MSITD_RETURN_IF_ERROR(room_.EnsureForRecord());
    return index_->CreateComparison(document, runs, 0);
  }
  absl::StatusOr<uint64_t> CreateComparisonAs(
      uint64_t wanted, std::string_view document,
      std::span<const std::string> runs) override {
    MSITD_RETURN_IF_ERROR(room_.EnsureForRecord());
    return index_->CreateComparison(document, runs, wanted);
  }
  absl::Status PutComparison(uint64_t id, std::string_view document) override {
    return index_->comparisons().Put(id, document);
  }
  absl::StatusOr<std::string> GetComparison(uint64_t id) override {
    return index_->comparisons().Get(id);
  }
  absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>> ListComparisons(
      uint64_t after, size_t limit) override {
    return index_->comparisons().List(after, limit);
  }
  absl::StatusOr<std::vector<uint64_t>> ListComparisonsOf(
      std::string_view run, uint64_t after, size_t limit) override {
    MSITD_ASSIGN_OR_RETURN(const RunBrief brief, index_->runs().Brief(run));
    return index_->comparisons().ListOf(brief.id, after, limit);
  }
  absl::Status DeleteComparison(uint64_t id) override {
    return index_->comparisons().Delete(id);
  }
  absl::Status PutComparisonRows(uint64_t id, uint64_t first_row,
                                 std::span<const std::string> rows) override {
    MSITD_RETURN_IF_ERROR(room_.EnsureForRecord());
    return index_->comparisons().PutRows(id, first_row, rows);
  }
  absl::StatusOr<std::vector<std::string>> GetComparisonRows(
      uint64_t id, uint64_t first_row, size_t limit) override {
    return index_->comparisons().GetRows(id, first_row, limit);
  }

 private:
  IndexGate& index_;
  DiskRoom& room_;
};

}  // namespace msitd::storage
