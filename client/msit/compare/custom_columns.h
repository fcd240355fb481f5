// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/ask/report/table/cell.h"
#include "client/msit/compare/file_index.h"
#include "client/msit/pair/custom_algorithms.h"
#include "protos/base/tensor_key.h"

namespace msitd::msit_command {

// The file of a tensor. If the tensor consists of pieces, these are joined
// along `dim`, and `file` is one of them.
struct TensorPlace {
  FileIndex::File file;
  TensorKey key;
  std::vector<FileIndex::File> pieces = {};
  size_t dim = 0;
};

// Appends a text to the reason in a row of msit's report.
void AddReason(const std::string& text, ask::Cells& cells);

// Columns with the results of user functions for pairs, after the columns of
// msit's report. Thread-compatible.
class CustomColumns {
 public:
  // Borrows `algorithms`. `is_compat`: there are no such columns, as in the
  // original, and only the texts are appended to the reason.
  CustomColumns(CustomAlgorithms& algorithms, bool is_compat);

  // True if there are no functions, so that rows are not changed.
  bool empty() const { return names_.empty(); }

  void AddHeadings(std::vector<std::string>& headings) const;

  // Adds a cell for each heading to the row of a pair: the value as Python
  // writes it, or an empty cell. Texts are appended to the reason of the row. A
  // pair without metrics is not measured. Returns CANCELLED on an interrupt.
  absl::Status AddCells(const TensorPlace& golden, const TensorPlace& my,
                        ask::Cells& cells);

 private:
  CustomAlgorithms& algorithms_;
  const std::vector<std::string> names_;
  const bool is_compat_;
};

}  // namespace msitd::msit_command
