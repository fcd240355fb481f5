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

// The file that a tensor came from, or those of its pieces, which are joined
// along `dim`; `file` is one of them then.
struct TensorPlace {
  FileIndex::File file;
  TensorKey key;
  std::vector<FileIndex::File> pieces = {};
  size_t dim = 0;
};

// Puts a text behind the reason in a row of msit's report.
void AddReason(const std::string& text, ask::Cells& cells);

// What functions of the user say of pairs, behind the columns of msit's report.
// Thread-compatible.
class CustomColumns {
 public:
  // Borrows `algorithms`. `is_compat`: there are no such columns, as in the
  // original, and only the texts go into the reason.
  CustomColumns(CustomAlgorithms& algorithms, bool is_compat);

  // True if there are no functions: rows stay as they are.
  bool empty() const { return names_.empty(); }

  void AddHeadings(std::vector<std::string>& headings) const;

  // Adds a cell for each heading to the row of a pair: its value as Python
  // writes it, or none. Texts go behind the reason of the row. A pair without
  // metrics is not measured. CANCELLED by an interrupt.
  absl::Status AddCells(const TensorPlace& golden, const TensorPlace& my,
                        ask::Cells& cells);

 private:
  CustomAlgorithms& algorithms_;
  const std::vector<std::string> names_;
  const bool is_compat_;
};

}  // namespace msitd::msit_command
