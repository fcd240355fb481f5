// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_writer.h"

namespace msitd::compare {

absl::Status ComparisonWriter::PutRows(uint64_t first_row,
                                       std::span<const std::string> rows) {
  MutexLock lock(mu_);
  if (erased_) return absl::OkStatus();
  return store_.PutComparisonRows(id_, first_row, rows);
}

absl::Status ComparisonWriter::PutDocument(const v1::Comparison& comparison) {
  MutexLock lock(mu_);
  if (erased_) return absl::OkStatus();
  return store_.PutComparison(id_, comparison.SerializeAsString());
}

absl::Status ComparisonWriter::Erase() {
  MutexLock lock(mu_);
  if (erased_) return absl::OkStatus();
  const absl::Status status = store_.DeleteComparison(id_);
  erased_ = status.ok();
  return status;
}

}  // namespace msitd::compare
