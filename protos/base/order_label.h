// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd {

// The label of a run that says whether its sequence numbers are the order of
// execution. An import sets it, because files can lack that order: then tensors
// are numbered by their names, which proves nothing about what came first. A
// run without the label was recorded in order.
inline constexpr char kOrderLabel[] = "order";

// The value of a run whose order of execution is not known.
inline constexpr std::string_view kUnknownOrder = "unknown";

// False if `labels`, a map of strings, say that the order of their run is not
// known.
template <typename Labels>
bool HasKnownOrder(const Labels& labels) {
  const auto order = labels.find(kOrderLabel);
  return order == labels.end() || order->second != kUnknownOrder;
}

}  // namespace msitd
