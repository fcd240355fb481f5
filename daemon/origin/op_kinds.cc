// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/op_kinds.h"

#include <algorithm>
#include <array>
#include <span>

#include "daemon/calls/torch_function.h"

namespace msitd::origin {
namespace {

constexpr std::string_view kAtenPrefix = "Aten.";
constexpr std::string_view kCollectivePrefix = "Distributed.";

constexpr std::array<std::string_view, 17> kMaskWriters = {
    "masked_fill", "full",
    "full_like",   "new_full",
    "where",       "fill",
    "index_fill",  "masked_put",
    "index_put",   "masked_scatter",
    "triu",        "tril",
    "setitem",     "constant_pad_nd",
    "pad",         "scatter",
    "nan_to_num"};

constexpr std::array<std::string_view, 4> kLogarithms = {"log", "log2", "log10",
                                                         "xlogy"};

constexpr std::array<std::string_view, 6> kUnwritten = {
    "empty",         "empty_like", "new_empty",
    "empty_strided", "resize",     "empty_permuted"};

constexpr std::array<std::string_view, 6> kSoftmaxes = {
    "softmax", "log_softmax", "scaled_dot_product_attention",
    "Softmax", "LogSoftmax",  "MultiheadAttention"};

constexpr std::string_view kTorchModules = "torch.nn.modules.";

// Folders of torch.nn whose modules multiply and add.
constexpr std::array<std::string_view, 6> kArithmeticModules = {
    "torch.nn.modules.linear.",    "torch.nn.modules.conv.",
    "torch.nn.modules.batchnorm.", "torch.nn.modules.normalization.",
    "torch.nn.modules.rnn.",       "torch.nn.modules.instancenorm."};

bool Has(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool BeginsWithOne(std::string_view text,
                   std::span<const std::string_view> prefixes) {
  return std::any_of(
      prefixes.begin(), prefixes.end(),
      [text](std::string_view prefix) { return text.starts_with(prefix); });
}

std::string_view LastWord(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

}  // namespace

bool IsFunction(std::string_view op) {
  return IsTorchFunction(op) || op.starts_with(kAtenPrefix);
}

bool IsCollective(std::string_view op) {
  return op.starts_with(kCollectivePrefix);
}

std::string_view BaseName(std::string_view op) {
  std::string_view name = LastWord(op);
  if (name.starts_with("__")) {
    name.remove_prefix(2);
    while (name.ends_with('_')) name.remove_suffix(1);
    // `imul` is `mul` in place.
    if (name == "imul" || name == "iadd" || name == "isub" ||
        name == "itruediv" || name == "ipow") {
      name.remove_prefix(1);
    }
    return name;
  }
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

bool WritesMask(std::string_view op) {
  return IsFunction(op) && Has(kMaskWriters, BaseName(op));
}

bool IsLogarithm(std::string_view op) {
  return IsFunction(op) && Has(kLogarithms, BaseName(op));
}

bool ReturnsUnwritten(std::string_view op) {
  return IsFunction(op) && Has(kUnwritten, BaseName(op));
}

bool IsSoftmax(std::string_view op_or_class) {
  return Has(kSoftmaxes, BaseName(op_or_class));
}

bool IsPlainModule(std::string_view module_class) {
  return module_class.starts_with(kTorchModules) &&
         LastWord(module_class) != "SyncBatchNorm";
}

bool IsArithmeticModule(std::string_view module_class) {
  // Other frameworks name their layers as torch does: ColumnParallelLinear.
  const std::string_view name = LastWord(module_class);
  return BeginsWithOne(module_class, kArithmeticModules) ||
         name.ends_with("Linear") || name.ends_with("Norm") ||
         name.find("Conv") != std::string_view::npos;
}

}  // namespace msitd::origin
