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

// The ops of a run, as a matcher wants to know them, from its records.
// Thread-compatible.
class RecordOps {
 public:
  // `source`: the tool that the run is from.
  explicit RecordOps(std::string_view source);

  struct Record {
    // Not below that of the record before.
    int32_t rank = 0;
    RecordKind kind = RecordKind::kTensor;
    std::string_view op;
    int32_t call = 0;
    Io io = Io::kUnspecified;
    std::string_view index;
    std::span<const int64_t> shape;
    int64_t size_bytes = 0;
    // Of statistics.
    std::string_view value;
  };
  // Takes the next record, in the order of execution of each rank. Kinds that
  // are no part of an op are passed over. RESOURCE_EXHAUSTED if a matcher takes
  // no more.
  absl::Status Add(const Record& record);

  // How many records of an op came.
  size_t count() const { return count_; }

  // Returns what came. Call it once.
  std::vector<match::OpFacts> Finish() { return builder_.Finish(); }

 private:
  const bool has_absent_;
  size_t count_ = 0;
  match::FactsBuilder builder_;
};

}  // namespace msitd::fill
