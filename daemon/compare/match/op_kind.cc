// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/op_kind.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/ascii.h"
#include "daemon/calls/torch_function.h"

namespace msitd::compare {
namespace {

// Returns the part of an op's name after the last dot, in lower case.
std::string BaseName(std::string_view op) {
  const size_t dot = op.rfind('.');
  std::string name(dot == std::string_view::npos ? op : op.substr(dot + 1));
  absl::AsciiStrToLower(&name);
  return name;
}

}  // namespace

bool SubtractsMean(std::string_view op) {
  std::string name = BaseName(op);
  if (name.find("rms") != std::string::npos) return false;
  if (name.find("layernorm") != std::string::npos ||
      name.find("layer_norm") != std::string::npos || name.starts_with("ln_")) {
    return true;
  }
  // Such as norm, norm1 and batch_norm.
  while (!name.empty() && absl::ascii_isdigit(name.back())) name.pop_back();
  return name.ends_with("norm") || name == "ln";
}

bool IsMean(std::string_view op) {
  return IsTorchFunction(op) && BaseName(op) == "mean";
}

bool IsSum(std::string_view op) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "add",  "add_", "__add__", "__radd__", "__iadd__", "sub",
      "sub_", "rsub", "__sub__", "__rsub__", "sum"};
  const bool is_named =
      std::find(kNames.begin(), kNames.end(), BaseName(op)) != kNames.end();
  return IsMean(op) || (IsTorchFunction(op) && is_named);
}

bool IsElementwiseProduct(std::string_view op) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "mul", "mul_", "__mul__", "__rmul__", "__imul__"};
  return IsTorchFunction(op) &&
         std::find(kNames.begin(), kNames.end(), BaseName(op)) != kNames.end();
}

bool IsProduct(std::string_view op) {
  const std::string name = BaseName(op);
  return IsTorchFunction(op) &&
         (name == "linear" || name == "addmm" || name == "mm" ||
          name == "matmul" || name == "__matmul__");
}

bool IsSineOrCosine(std::string_view op) {
  const std::string name = BaseName(op);
  return IsTorchFunction(op) && (name == "sin" || name == "cos");
}

}  // namespace msitd::compare
