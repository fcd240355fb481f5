// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/foreign/match/mapping.h"
#include "client/msit/compare/level_side.h"
#include "client/msit/tensor/tensor.h"

namespace msitd::v1 {
class ComparisonRow;
}  // namespace msitd::v1

namespace msitd::msit_command {

// Returns the part of a torch model's table that the rope operation of the
// library uses: the row at the end of a sequence. `part` is 0 for the cosine
// and 1 for the sine, which a table may contain side by side. Returns nothing
// if the table has no such row.
std::optional<Tensor> SliceOfTable(const Tensor& table, int64_t sequence_length,
                                   int part);

// Returns `tensor` without every second column if it is a single row and these
// columns equal those before them; otherwise nothing.
std::optional<Tensor> WithoutRepeatedColumns(const Tensor& tensor);

// Compares the tables of rope operations if one side uses a row of them. A
// mapping cannot express this, because the row differs for each token.
// Thread-compatible; lives on the main thread.
class RopeSlices {
 public:
  // Borrows all arguments. `is_torch_golden`: the other side is the library.
  RopeSlices(const LevelSide& golden, const LevelSide& my, bool is_torch_golden)
      : golden_(golden), my_(my), is_torch_golden_(is_torch_golden) {}

  // Reads the files of these operations for a token. Files that cannot be read
  // are skipped.
  void Find(const match::RopeOps& ops, int64_t token);

  // Returns true for a row of a tensor that is compared here.
  bool Has(const v1::ComparisonRow& row) const;

  // Compares the tensors that were found. `take` receives the rows, as if both
  // runs had the tensors.
  absl::Status Compare(
      ask::Interrupts& interrupts,
      const std::function<absl::Status(const v1::ComparisonRow& row)>& take);

 private:
  struct Slice {
    // Names of tensors in the runs of both sides.
    std::string golden;
    std::string my;
    std::string op;  // The op of the golden tensor.
    int64_t token = 0;
    Tensor golden_tensor;
    Tensor my_tensor;
  };

  void FindPart(const match::RopeOps& ops, int64_t token, int part,
                int64_t sequence_length);

  const LevelSide& golden_;
  const LevelSide& my_;
  const bool is_torch_golden_;
  std::vector<Slice> slices_;
  // The ids of their tensors.
  std::set<std::string> golden_ids_;
  std::set<std::string> my_ids_;
};

}  // namespace msitd::msit_command
