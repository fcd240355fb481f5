// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/status/mutex.h"
#include "storage/face/comparisons.h"

namespace msitd::compare {

// Writes one comparison to the store until it is erased. Nothing is written for
// it after that; PutRows and PutDocument then return OK. Thread-safe.
class ComparisonWriter {
 public:
  // `store` must outlive the writer.
  ComparisonWriter(storage::Comparisons& store, uint64_t id)
      : store_(store), id_(id) {}

  // Errors: those of the store.
  absl::Status PutRows(uint64_t first_row, std::span<const std::string> rows);
  absl::Status PutDocument(const v1::Comparison& comparison);
  // Removes the comparison with its rows.
  absl::Status Erase();

 private:
  storage::Comparisons& store_;
  const uint64_t id_;

  // Held during writes, so that none happens after Erase.
  Mutex mu_;
  bool erased_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace msitd::compare
