// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/report/msprobe_leaf_name.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "client/foreign/report/msprobe_value.h"
#include "protos/base/resource_name.h"

namespace msitd::report {
namespace {

bool IsKeyword(std::string_view index) {
  return !index.empty() && (index.front() < '0' || index.front() > '9');
}

}  // namespace

TensorKey KeyOf(const v1::ComparisonRow& row, const v1::ComparedTensor& side) {
  TensorKey key;
  key.token = row.token();
  key.rank = row.rank();
  key.op = row.op();
  key.call = row.call();
  key.io = static_cast<Io>(row.io());
  key.index = row.index();
  if (auto own = ParseTensorName(side.name())) key = *std::move(own);
  return key;
}

LeafName NameOf(const v1::ComparisonRow& row, const v1::ComparedTensor& side) {
  const TensorKey key = KeyOf(row, side);
  const Io io = key.io;
  LeafName out;
  if (io == Io::kState) {
    // A value that a script saved, or a part of it.
    out.part = 1;
    out.entry = fmt::format("{}.{}.debug", key.op, key.call);
    out.leaf = key.index.empty() ? out.entry
                                 : fmt::format("{}.{}", out.entry, key.index);
    return out;
  }
  std::string_view side_name = "parameters";
  int part = 1;
  if (io == Io::kInput || io == Io::kGradOutput) {
    side_name = "input";
    part = 0;
  } else if (io == Io::kOutput || io == Io::kGradInput) {
    side_name = "output";
    part = 2;
  }
  if (io == Io::kInput && IsTensor(side) && IsKeyword(key.index)) {
    side_name = "kwargs";
  }
  const bool is_module =
      key.op.starts_with("Module.") || key.op.starts_with("Cell.");
  out.part = part;
  if (io == Io::kGradWeight) {
    // The row is an entry of its own.
    out.entry =
        is_module
            ? fmt::format("{}.parameters_grad.{}", key.op, key.call)
            : fmt::format("{}.{}.backward.parameters_grad", key.op, key.call);
    out.leaf = fmt::format("{}.{}", out.entry, key.index);
    return out;
  }
  const bool is_backward = io == Io::kGradInput || io == Io::kGradOutput;
  const std::string_view direction = is_backward ? "backward" : "forward";
  out.entry = is_module ? fmt::format("{}.{}.{}", key.op, direction, key.call)
                        : fmt::format("{}.{}.{}", key.op, key.call, direction);
  out.leaf = fmt::format("{}.{}.{}", out.entry, side_name, key.index);
  return out;
}

bool IsTensor(const v1::ComparedTensor& side) {
  return side.kind() != v1::RECORD_KIND_STATISTICS && !IsMsprobeValue(side);
}

}  // namespace msitd::report
