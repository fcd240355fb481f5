// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/report/msprobe_side.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/ask/report/schema/row_fields.h"
#include "client/foreign/report/msprobe_value.h"

namespace msitd::report {
namespace {

bool IsOfFloatGroup(std::string_view dtype) {
  constexpr std::array<std::string_view, 4> kGroup = {
      "torch.float16", "torch.bfloat16", "torch.float32", "torch.float64"};
  return std::find(kGroup.begin(), kGroup.end(), dtype) != kGroup.end();
}

}  // namespace

bool MsprobeSide::IsScalar() const {
  return is_value && dtype.find("class") != std::string::npos && shape == "[]";
}

MsprobeSide MsprobeSideOf(const v1::ComparedTensor& side,
                          std::string_view index, bool is_compat) {
  MsprobeSide out;
  out.is_value = IsMsprobeValue(side);
  if (out.is_value) {
    MsprobeValue value = MsprobeValueOf(side, index);
    out.is_empty_container = value.is_empty_container;
    out.dtype = std::move(value.dtype);
    out.shape = std::move(value.shape);
    out.statistics = std::move(value.statistics);
    out.checksum = {"value", std::move(value.checksum)};
  } else {
    out.dtype = ask::TorchDType(side);
    out.shape = ask::PythonShape(side);
    out.statistics = StatisticsOf(side);
    out.checksum = ChecksumOf(side);
    if (side.has_requires_grad()) {
      out.requires_grad = side.requires_grad() ? "True" : "False";
    }
  }
  if (!is_compat) return out;
  if (out.checksum.text.empty() && side.kind() == v1::RECORD_KIND_STATISTICS) {
    out.checksum.text = "00000000";
  }
  out.checksum.kind.clear();
  return out;
}

bool TypesMatch(const MsprobeSide& target, const MsprobeSide& golden) {
  return target.dtype == golden.dtype ||
         (IsOfFloatGroup(target.dtype) && IsOfFloatGroup(golden.dtype));
}

}  // namespace msitd::report
