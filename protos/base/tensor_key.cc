// SPDX-License-Identifier: Apache-2.0
#include "protos/base/tensor_key.h"

#include <array>

namespace msitd {
namespace {

constexpr std::array<std::string_view, kIoCount> kIoNames = {
    "unspecified", "input",       "output",      "weight",
    "grad_input",  "grad_output", "grad_weight", "state",
};

}  // namespace

std::string_view IoName(Io io) {
  const auto number = static_cast<size_t>(io);
  return number < kIoNames.size() ? kIoNames[number] : kIoNames[0];
}

std::optional<Io> ParseIo(std::string_view name) {
  for (size_t i = 1; i < kIoNames.size(); ++i) {
    if (kIoNames[i] == name) return static_cast<Io>(i);
  }
  return std::nullopt;
}

}  // namespace msitd
