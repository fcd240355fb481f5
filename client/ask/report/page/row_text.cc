// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/page/row_text.h"

#include <fmt/format.h>

#include "client/ask/report/schema/row_fields.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/resource_name.h"
#include "protos/base/tensor_key.h"

namespace msitd::ask {
namespace {

// Returns both sides of a property, or one if they agree.
std::string BothSides(const v1::ComparisonRow& row,
                      std::string (*text)(const v1::ComparedTensor&)) {
  const std::string golden = row.has_golden() ? text(row.golden()) : "-";
  const std::string target = row.has_target() ? text(row.target()) : "-";
  return golden == target ? golden : golden + "/" + target;
}

std::string DTypeText(const v1::ComparedTensor& side) {
  const auto kind = static_cast<RecordKind>(side.kind());
  if (IsValue(kind)) return std::string(RecordKindName(kind));
  return std::string(DTypeName(static_cast<DType>(side.dtype())));
}

std::string ShapeText(const v1::ComparedTensor& side) {
  return IsValue(static_cast<RecordKind>(side.kind())) ? side.value()
                                                       : PythonShape(side);
}

}  // namespace

std::string DTypesText(const v1::ComparisonRow& row) {
  return BothSides(row, DTypeText);
}

std::string ShapesText(const v1::ComparisonRow& row) {
  return BothSides(row, ShapeText);
}

std::string PairingText(const v1::ComparisonRow& row) {
  if (!row.has_golden() || !row.has_target()) return "";
  const auto target = ParseTensorName(row.target().name());
  const bool is_alike =
      !target.has_value() ||
      (target->op == row.op() && target->call == row.call() &&
       target->io == static_cast<Io>(row.io()) && target->index == row.index());
  if (is_alike) return row.pairing();
  std::string out =
      fmt::format("{} {}/{}", target->op, IoName(target->io), target->index);
  if (target->call != row.call()) out += fmt::format(", call {}", target->call);
  return row.pairing().empty() ? out : out + ": " + row.pairing();
}

int NonFiniteFlags(const v1::ComparisonRow& row) {
  const auto has = [](const v1::ComparedTensor& side) {
    return side.nan_count() > 0 || side.infinity_count() > 0;
  };
  return (has(row.target()) ? kTargetNonFinite : 0) +
         (has(row.golden()) ? kGoldenNonFinite : 0);
}

}  // namespace msitd::ask
