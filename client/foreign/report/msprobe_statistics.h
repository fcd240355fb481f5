// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>

#include "client/ask/report/table/cell.h"
#include "msitd/v1/comparison_service.pb.h"

// Maximum, minimum, mean and norm as msprobe records and compares them.
namespace msitd::report {

// One cell, and what it means.
struct MsprobeStatistic {
  enum class Kind { kNumber, kNan, kInfinity, kAbsent, kOther };

  Kind kind = Kind::kAbsent;
  double number = 0;  // Of kNumber and kInfinity.
  ask::Cell cell = "N/A";
};

// Max, Min, Mean and Norm, in this order.
using MsprobeStatistics = std::array<MsprobeStatistic, 4>;

// Returns what msprobe records of such a tensor: of bool `True` and `False`,
// `None` for what it does not take of the type, mean and norm as numbers of the
// type. Absent is what the summary does not know: all of a sum that was not
// read whole, and the magnitudes of complex elements. Of a side that is
// statistics: what is in them, as their tool wrote it; of the others, `None` if
// msprobe takes none of the type, or else absent.
MsprobeStatistics StatisticsOf(const v1::ComparedTensor& side);

// What stands for the bytes of a tensor.
struct MsprobeChecksum {
  std::string kind;  // Those of one kind can be compared.
  std::string text;  // Empty if there is none.
};

// Returns the content hash; of a side that is statistics, the crc32 or the xor
// in them.
MsprobeChecksum ChecksumOf(const v1::ComparedTensor& side);

struct StatisticsDifference {
  ask::Cell difference;
  ask::Cell relative;
};

StatisticsDifference DifferenceOf(const MsprobeStatistic& target,
                                  const MsprobeStatistic& golden);

// Of a relative difference that ends with %, as a fraction.
std::optional<double> FractionOf(const std::string& relative);

}  // namespace msitd::report
