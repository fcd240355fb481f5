// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>

#include "client/ask/report/table/cell.h"
#include "msitd/v1/comparison_service.pb.h"

// Maximum, minimum, mean and norm as msprobe records and compares them.
namespace msitd::report {

// A cell and its value.
struct MsprobeStatistic {
  // kDevice is a text that names a kind of device.
  enum class Kind { kNumber, kNan, kInfinity, kAbsent, kDevice, kOther };

  Kind kind = Kind::kAbsent;
  double number = 0;  // For kNumber and kInfinity.
  ask::Cell cell = "N/A";
};

// Max, Min, Mean and Norm, in this order.
using MsprobeStatistics = std::array<MsprobeStatistic, 4>;

// Returns the statistics that msprobe records of such a tensor: `True` and
// `False` for bool, `None` for statistics that it does not compute for the
// type, mean and norm as numbers of the type. A statistic is absent if the
// summary lacks it: all of them if the tensor was not read completely, and the
// magnitudes of complex elements. For a side of kind statistics, these are the
// recorded statistics as their tool wrote them. Missing ones are `None` if
// msprobe computes none for the type, and otherwise absent.
MsprobeStatistics StatisticsOf(const v1::ComparedTensor& side);

// A checksum that represents the bytes of a tensor.
struct MsprobeChecksum {
  std::string kind;  // Only checksums of the same kind can be compared.
  std::string text;  // Empty if there is none.
};

// Returns the content hash or, for a side of kind statistics, the crc32 or xor
// in its statistics.
MsprobeChecksum ChecksumOf(const v1::ComparedTensor& side);

struct StatisticsDifference {
  ask::Cell difference;
  ask::Cell relative;
};

StatisticsDifference DifferenceOf(const MsprobeStatistic& target,
                                  const MsprobeStatistic& golden);

// Parses a relative difference that ends with % and returns it as a fraction.
std::optional<double> FractionOf(const std::string& relative);

}  // namespace msitd::report
