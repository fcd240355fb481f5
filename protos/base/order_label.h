// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "protos/base/source_label.h"

namespace msitd {

// Label of a run that states whether its sequence numbers are the order of
// execution. Imports set it, because files may not record that order. Tensors
// are then numbered by their names, which says nothing about which was computed
// first. A run that was not imported has no label and was recorded in order.
inline constexpr char kOrderLabel[] = "order";

// Value for a run whose files state the order in which tensors were computed.
inline constexpr std::string_view kRecordedOrder = "recorded";

// Value for a run whose order of execution is unknown.
inline constexpr std::string_view kUnknownOrder = "unknown";

// False if `labels`, a map of strings, state that the order of the run is
// unknown. Imports of plain files and of dumps of msit that lack the label were
// numbered by names, or by file times that a copy changes.
template <typename Labels>
bool HasKnownOrder(const Labels& labels) {
  const auto order = labels.find(kOrderLabel);
  if (order != labels.end()) return order->second != kUnknownOrder;
  const auto source = labels.find(kSourceLabel);
  return source == labels.end() ||
         (source->second != kFilesSource && source->second != kMsitSource);
}

}  // namespace msitd
