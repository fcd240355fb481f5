// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/compare/judge/unmatched_rules.h"
#include "daemon/compare/origin/op_rewrites.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {

// Suggests flags for tensors that exist in only one run.
//
// Considers at most kHintedOpsMax names of ops of each run. Thread-compatible.
class PairingHints {
 public:
  static constexpr size_t kHintedOpsMax = 4096;

  PairingHints();

  // Adds a tensor that exists in only one run.
  void Add(std::string_view op, Io io, std::string_view index, bool is_golden);

  // Returns flags of msitctl with which these tensors would have counterparts,
  // or would be allowed to have none: rewrites in the order in which they
  // apply,
  // `--fuzzy`, or `--allow-unmatched @sdpa-eager` if fused attention omits all
  // of them. Empty if no flag would help.
  std::vector<std::string> Flags() const;

 private:
  OpNames golden_;
  OpNames target_;
  UnmatchedRules fused_attention_;
  bool are_all_of_attention_ = true;
};

}  // namespace msitd::compare
