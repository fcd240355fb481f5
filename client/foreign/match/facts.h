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

// What a matcher knows of a run.
namespace msitd::match {

// One argument of an op.
struct TensorFacts {
  Io io = Io::kUnspecified;
  std::string index;
  // As it was where it was first seen: in the first token.
  std::vector<int64_t> shape;
  // As it was where it was last seen.
  std::vector<int64_t> last_shape;
  // In all ranks, tokens and calls.
  size_t record_count = 1;
  // Elements of all ranks, as it was where each first had it, and where each
  // last had it.
  uint64_t all_count = 0;
  uint64_t last_all_count = 0;
  // The last rank that had it.
  int32_t rank = 0;
};

struct OpFacts {
  std::string op;
  int32_t call_count = 1;
  // The call with most bytes.
  int32_t largest_call = 0;
  // By io, then in the order of arguments: 2 before 10. Each of them once,
  // whatever the rank, token and call.
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
  // Which tool it is from: TreeKindName, or empty for our own.
  std::string source;
  // In the order of execution.
  std::vector<OpFacts> ops;
  std::vector<TextFile> files;
};

// True if argument `a` comes before `b`: numbers as numbers, what is behind a
// dot last: 1 1.0 1.2 1.10 2 10 mask.
bool ComesBefore(std::string_view a, std::string_view b);

// True if both have ops of the same names.
bool HaveSameOps(const RunFacts& golden, const RunFacts& target);

// The number of a tensor of `op`; nothing if it has none.
std::optional<size_t> FindTensor(const OpFacts& op, Io io,
                                 std::string_view index);

// Puts the facts together from the tensors of a run. Thread-compatible.
class FactsBuilder {
 public:
  // What comes from now on is of this rank, above that before; 0 at first.
  void GoToRank(int32_t rank) { rank_ = rank; }

  // Takes one tensor; the order of ops is that in which they come, and of
  // tokens, too. Errors:
  // RESOURCE_EXHAUSTED beyond kOpsMax or kTensorsMax.
  absl::Status Add(std::string_view op, int32_t call, Io io,
                   std::string_view index, std::vector<int64_t> shape,
                   int64_t size_bytes);

  // Returns what came. Call it once.
  std::vector<OpFacts> Finish();

 private:
  struct Call {
    int32_t number = 0;
    int64_t size_bytes = 0;
  };

  // Takes note of a tensor that came before.
  void SeeAgain(TensorFacts& tensor, std::vector<int64_t> shape) const;
  // Adds to the call that is being counted, and remembers the largest one.
  void Count(size_t op, int32_t call, int64_t size_bytes);

  std::vector<OpFacts> ops_;
  std::unordered_map<std::string, size_t> by_name_;
  // Of each op.
  std::vector<Call> current_;
  std::vector<int64_t> largest_bytes_;
  size_t tensor_count_ = 0;
  int32_t rank_ = 0;
};

}  // namespace msitd::match
