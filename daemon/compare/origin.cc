// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin.h"

#include <fmt/format.h>

namespace msitd::compare {
namespace {

enum class Role { kNone, kInput, kOutput };

Role RoleOf(v1::Io io) {
  switch (io) {
    case v1::IO_INPUT:
    case v1::IO_WEIGHT:
    case v1::IO_GRAD_OUTPUT:
      return Role::kInput;
    case v1::IO_OUTPUT:
    case v1::IO_GRAD_INPUT:
    case v1::IO_GRAD_WEIGHT:
      return Role::kOutput;
    default:
      return Role::kNone;
  }
}

bool IsBackward(v1::Io io) {
  return io == v1::IO_GRAD_OUTPUT || io == v1::IO_GRAD_INPUT ||
         io == v1::IO_GRAD_WEIGHT;
}

}  // namespace

void OriginFinder::StartGroup() {
  inputs_.clear();
  failed_inside_.clear();
}

std::string OriginFinder::KeyOf(const v1::ComparisonRow& row, bool backward) {
  return fmt::format("{}{}{}{}", row.op(), '\0', row.call(),
                     backward ? "b" : "f");
}

void OriginFinder::NoteFailure(const std::string& op) {
  for (size_t dot = op.rfind('.'); dot != std::string::npos && dot > 0;
       dot = op.rfind('.', dot - 1)) {
    // What is there has its own parents there as well.
    if (!failed_inside_.insert(op.substr(0, dot)).second) return;
  }
}

v1::Origin OriginFinder::Find(const v1::ComparisonRow& row) {
  const Role role = RoleOf(row.io());
  // An output that does not fail is none's cause.
  if (role == Role::kNone ||
      (role == Role::kOutput && row.verdict() != v1::FAIL)) {
    return v1::ORIGIN_UNSPECIFIED;
  }
  Inputs& inputs = inputs_[KeyOf(row, IsBackward(row.io()))];
  if (role == Role::kInput) {
    ++(row.verdict() == v1::PASS   ? inputs.passed
       : row.verdict() == v1::FAIL ? inputs.failed
                                   : inputs.unknown);
    return v1::ORIGIN_UNSPECIFIED;
  }
  const bool inside = failed_inside_.contains(row.op());
  NoteFailure(row.op());
  if (inputs.failed > 0) return v1::PASSED_ON;
  if (inside) return v1::INSIDE;
  if (inputs.passed == 0 || inputs.unknown > 0) return v1::UNKNOWN_INPUTS;
  return v1::CREATED;
}

}  // namespace msitd::compare
