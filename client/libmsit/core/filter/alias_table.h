// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/libmsit/core/tensor_view.h"
#include "protos/capture/capture_policy.h"
#include "protos/chunk/chunk_builder.h"

namespace msitd::libmsit {

// Remembers the records whose bytes callers have identified, so that later
// records can name them instead of sending the same bytes again. An alias has
// the same token as its original, so only records of the highest token so far
// are remembered. Thread-compatible.
class AliasTable {
 public:
  // Maximum number of records; the oldest are forgotten.
  static constexpr size_t kAliasesMax = 16384;

  explicit AliasTable(size_t aliases_max = kAliasesMax)
      : aliases_max_(aliases_max) {}

  // A record that was recorded completely.
  struct Original {
    std::string device;
    std::string op;
    int32_t call = 0;
    Io io = Io::kUnspecified;
    std::string index;
    DType dtype = DType::kUnspecified;
    std::vector<int64_t> dims;
    // How much of the record is kept.
    capture::Level level = capture::Level::kOff;
    // RecordSpec::sequence of the record.
    uint64_t sequence = 0;

    chunk::AliasSpec AsSpec() const { return {op, call, io, index}; }
  };

  // Returns the record that has the bytes of `tensor`, if at least as much of
  // it is kept as `level` requires. `token` and `call` belong to the new
  // record, which cannot be its own original; `call` may be MSIT_CALL_AUTO.
  std::optional<Original> Find(const TensorView& tensor, int64_t token,
                               int32_t call, capture::Level level) const;

  // Remembers `record`, which was recorded from `tensor`, by the identity of
  // the tensor.
  void Add(const TensorView& tensor, const chunk::RecordSpec& record,
           capture::Level level);

  // Forgets everything, because accepted records were dropped.
  void Clear();

 private:
  size_t aliases_max_;
  int64_t token_ = std::numeric_limits<int64_t>::min();
  std::unordered_map<uint64_t, Original> originals_;
  // Identities in originals_, the oldest first.
  std::deque<uint64_t> order_;
};

}  // namespace msitd::libmsit
