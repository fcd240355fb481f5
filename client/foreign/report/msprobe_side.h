// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "client/foreign/report/msprobe_statistics.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::report {

// The columns of one side of a row of msprobe's report.
struct MsprobeSide {
  bool is_value = false;  // Not a tensor.
  // True for an empty list or dict; see MsprobeValue.
  bool is_empty_container = false;
  std::string dtype;
  std::string shape;
  // `True` or `False`; `N/A` if it was not recorded, and for values.
  std::string requires_grad = "N/A";
  MsprobeStatistics statistics;
  MsprobeChecksum checksum;

  bool has_requires_grad() const { return requires_grad != "N/A"; }
  // Returns true for a value that the rule about scalars uses.
  bool IsScalar() const;
};

// Returns the columns of a side. `index` is that of its key. If `is_compat`,
// checksums are those of msprobe: statistics without one have the checksum of
// an empty text, and all kinds can be compared.
MsprobeSide MsprobeSideOf(const v1::ComparedTensor& side,
                          std::string_view index, bool is_compat);

// Returns true if msprobe compares sides of these types: the types are equal,
// or both are among the floats from 16 to 64 bits.
bool TypesMatch(const MsprobeSide& target, const MsprobeSide& golden);

}  // namespace msitd::report
