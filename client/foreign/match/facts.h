// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "protos/base/tensor_key.h"

// The facts about a run that matchers use.
namespace msitd::match {

// One argument of an op.
struct TensorFacts {
  Io io = Io::kUnspecified;
  std::string index;
  // The shape in its first record, which is in the first token.
  std::vector<int64_t> shape;
  // The shape in its last record.
  std::vector<int64_t> last_shape;
  // In all ranks, tokens and calls.
  size_t record_count = 1;
  // The total number of elements in all ranks, from the first and from the last
  // record of each rank.
  uint64_t all_count = 0;
  uint64_t last_all_count = 0;
  // The last rank that recorded it.
  int32_t rank = 0;
};

struct OpFacts {
  std::string op;
  int32_t call_count = 1;
  // The call with the most bytes.
  int32_t largest_call = 0;
  // Ordered by io, then by argument: 2 before 10. Each tensor occurs once, for
  // all ranks, tokens and calls.
  std::vector<TensorFacts> tensors;
};

// An attachment, or a document of a rank and token.
struct TextFile {
  std::string name;
  std::string text;
  int32_t rank = 0;
  int64_t token = 0;
};

struct RunFacts {
  std::string run;
  // The tool that recorded it, as TreeKindName returns it; empty for msitd
  // itself.
  std::string source;
  // In the order of execution.
  std::vector<OpFacts> ops;
  std::vector<TextFile> files;
};

// Returns true if argument `a` is before `b`. Numbers are compared by value,
// and components after a dot last: 1 1.0 1.2 1.10 2 10 mask.
bool ComesBefore(std::string_view a, std::string_view b);

// Returns true if both have ops of the same names.
bool HaveSameOps(const RunFacts& golden, const RunFacts& target);

// Returns the index of a tensor of `op`; nothing if the op does not have it.
std::optional<size_t> FindTensor(const OpFacts& op, Io io,
                                 std::string_view index);

// Collects the facts from the tensors of a run. Thread-compatible.
class FactsBuilder {
 public:
  // Sets the rank of the tensors that are added next. It is above the previous
  // one; initially 0.
  void GoToRank(int32_t rank) { rank_ = rank; }

  // Adds one tensor. Ops and tokens are added in order. Returns
  // RESOURCE_EXHAUSTED beyond kOpsMax or kTensorsMax.
  absl::Status Add(std::string_view op, int32_t call, Io io,
                   std::string_view index, std::vector<int64_t> shape,
                   int64_t size_bytes);

  // Returns the collected ops. Call it once.
  std::vector<OpFacts> Finish();

 private:
  struct Call {
    int32_t number = 0;
    int64_t size_bytes = 0;
  };

  // Updates a tensor that was added before.
  void SeeAgain(TensorFacts& tensor, std::vector<int64_t> shape) const;
  // Adds to the current call, and remembers the largest one.
  void Count(size_t op, int32_t call, int64_t size_bytes);

  std::vector<OpFacts> ops_;
  std::unordered_map<std::string, size_t> by_name_;
  // For each op.
  std::vector<Call> current_;
  std::vector<int64_t> largest_bytes_;
  size_t tensor_count_ = 0;
  int32_t rank_ = 0;
};

}  // namespace msitd::match
