// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "protos/base/tensor_key.h"

namespace msitd::compare {

// Which tensors a rule is for: `PATTERN[@io[/index]]`, such as `layers.*`,
// `*.attn@input` or `*@input/attention_mask`. PATTERN and index are patterns of
// GlobMatch, io is one of IoName.
//
// Immutable, hence thread-safe.
class TensorPattern {
 public:
  // Returns nullopt if the pattern of ops is empty or longer than an op.
  static std::optional<TensorPattern> Parse(std::string_view text);

  bool Matches(std::string_view op, Io io, std::string_view index) const;
  // True if some tensor of the op may match.
  bool MatchesOp(std::string_view op) const;

 private:
  std::string op_pattern_;
  std::optional<Io> io_;
  std::optional<std::string> index_pattern_;
};

}  // namespace msitd::compare
