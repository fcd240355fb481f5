// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "daemon/query/token_requests.h"
#include "storage/face/run_reader.h"

namespace msitd::origin {

// The number of rows of a batch of `row_count` rows that belong to no request.
// nullopt if the rows of some request are not known, or are not in the batch.
std::optional<int64_t> UnusedRows(std::span<const query::TokenRequest> requests,
                                  int64_t row_count);

// Recognizes tensors in which only the rows that belong to no request can be
// non-finite. Thread-compatible. The reader must outlive it.
class PaddingRows {
 public:
  explicit PaddingRows(storage::RunReader& run) : requests_(run) {}

  // Returns whether the first dimension of `tensor` is a batch with unused
  // rows, and exactly as many elements are NaN or infinite as these rows have.
  // A summary does not show where elements are, so this is not a proof: columns
  // can have as many elements.
  absl::StatusOr<bool> Explains(const storage::TensorInfo& tensor,
                                const Summary& summary,
                                storage::StopCheck stop);

 private:
  query::TokenRequests requests_;
};

}  // namespace msitd::origin
