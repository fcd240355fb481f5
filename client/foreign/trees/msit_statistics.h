// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"

namespace msitd::trees {

// A row of statistics.csv.
struct MsitStatistics {
  Io io = Io::kUnspecified;
  // The last number in the name of the tensor; 0 if it has none.
  std::string index;
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  // In the form of a record of kind statistics.
  std::string text;
};

struct MsitStatisticsTable {
  std::vector<MsitStatistics> rows;
  // Why rows are skipped.
  std::vector<absl::Status> problems;
};

// Parses the statistics.csv that msit writes for a module. Returns
// INVALID_ARGUMENT if a column is missing.
absl::StatusOr<MsitStatisticsTable> ParseMsitStatistics(std::string_view text);

}  // namespace msitd::trees
