// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "protos/base/tensor_key.h"

namespace msitd {

// Label of a golden run that states for each of its tensors what a correct
// counterpart may differ by. Its value is kStatedTolerances.
//
// The statement on a tensor is a text with the same rank, token, op and call,
// the io `state`, and the index `tolerance.<io>/<index>`:
//
// - `pass if PREDICATE`: the condition for a pass.
// - `not checked: REASON`: nothing is known about the tensor, and a comparison
//   is therefore partial.
// - `covered: REASON`: the tensor follows from others, which are checked.
//
// A run of which only some tensors have statements is judged by the default
// policy for the others.
inline constexpr char kTolerancesLabel[] = "tolerances";
inline constexpr std::string_view kStatedTolerances = "stated";
inline constexpr std::string_view kToleranceIndexPrefix = "tolerance.";

inline constexpr std::string_view kPassIf = "pass if ";
inline constexpr std::string_view kNotChecked = "not checked: ";
inline constexpr std::string_view kCovered = "covered: ";

// True if `labels`, a map of strings, are those of a run that states
// tolerances.
template <typename Labels>
bool StatesTolerances(const Labels& labels) {
  const auto found = labels.find(kTolerancesLabel);
  return found != labels.end() && found->second == kStatedTolerances;
}

// True if a record with this key is a statement on a tensor.
inline bool IsToleranceRecord(const TensorKey& key) {
  return key.io == Io::kState && key.index.starts_with(kToleranceIndexPrefix);
}

// Returns the index of the statement on a tensor.
inline std::string ToleranceIndexOf(Io io, std::string_view index) {
  std::string out(kToleranceIndexPrefix);
  out += IoName(io);
  out += '/';
  out += index;
  return out;
}

}  // namespace msitd
