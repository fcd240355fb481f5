// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "client/foreign/report/msprobe_statistics.h"
#include "msitd/v1/comparison_service.pb.h"

// Values that are not tensors, such as arguments of functions, as msprobe's
// report shows them.
//
// dump.json describes such a value by its type and its content. The report
// derives the columns from the class that the content has in Python. A dtype
// and a device, for example, are texts. msitd records the value itself, from
// which the description follows.
namespace msitd::report {

struct MsprobeValue {
  std::string dtype;  // `<class 'int'>`, `torch.Size`; `N/A` for None.
  std::string shape;  // `[]`, the content of a size; `N/A` for None.
  // The value in place of each statistic.
  MsprobeStatistics statistics;
  // The CRC-32 of the text that Python's str returns, or the text itself for
  // ranks such as `src` and for process groups. `N/A` for None.
  std::string checksum;
  // True for an empty list or dict, of which msprobe's report has no row.
  bool is_empty_container = false;
};

// Returns true for a record of a value.
bool IsMsprobeValue(const v1::ComparedTensor& side);

// Returns the columns of a value. `index` names the argument, because ranks
// such as `src` are shown as texts.
MsprobeValue MsprobeValueOf(const v1::ComparedTensor& side,
                            std::string_view index);

// Returns true if Python compares the two values as different. NaN is equal to
// NaN, as in msprobe.
bool ValuesDiffer(const MsprobeStatistic& target,
                  const MsprobeStatistic& golden);

}  // namespace msitd::report
