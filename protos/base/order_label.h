// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "protos/base/source_label.h"

namespace msitd {

// The label of a run that says whether its sequence numbers are the order of
// execution. An import sets it, because files can lack that order: then tensors
// are numbered by their names, which proves nothing about what came first. A
// run that no import made has no label, and was recorded in order.
inline constexpr char kOrderLabel[] = "order";

// The value of a run whose files say in which order their tensors were
// computed.
inline constexpr std::string_view kRecordedOrder = "recorded";

// The value of a run whose order of execution is not known.
inline constexpr std::string_view kUnknownOrder = "unknown";

// False if `labels`, a map of strings, say that the order of their run is not
// known. Plain files and dumps of msit without the label were numbered by
// names, or by times that a copy changes.
template <typename Labels>
bool HasKnownOrder(const Labels& labels) {
  const auto order = labels.find(kOrderLabel);
  if (order != labels.end()) return order->second != kUnknownOrder;
  const auto source = labels.find(kSourceLabel);
  return source == labels.end() ||
         (source->second != kFilesSource && source->second != kMsitSource);
}

}  // namespace msitd
