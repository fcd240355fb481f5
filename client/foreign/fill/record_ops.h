// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/match/facts.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"

namespace msitd::fill {

// Collects the ops of a run from its records, in the form that a matcher needs.
// Thread-compatible.
class RecordOps {
 public:
  // `source` is the tool that recorded the run.
  explicit RecordOps(std::string_view source);

  struct Record {
    // Not lower than the rank of the previous record.
    int32_t rank = 0;
    RecordKind kind = RecordKind::kTensor;
    std::string_view op;
    int32_t call = 0;
    Io io = Io::kUnspecified;
    std::string_view index;
    std::span<const int64_t> shape;
    int64_t size_bytes = 0;
    // Only for statistics.
    std::string_view value;
  };
  // Adds the next record. Records are in the order of execution within each
  // rank. Kinds that do not belong to an op are ignored. Returns
  // RESOURCE_EXHAUSTED if there are more ops than a matcher accepts.
  absl::Status Add(const Record& record);

  // The number of records of ops that were added.
  size_t count() const { return count_; }

  // Returns the collected ops. Call it once.
  std::vector<match::OpFacts> Finish() { return builder_.Finish(); }

 private:
  const bool has_absent_;
  size_t count_ = 0;
  match::FactsBuilder builder_;
};

}  // namespace msitd::fill
