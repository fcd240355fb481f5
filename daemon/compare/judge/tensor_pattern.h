// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "protos/base/tensor_key.h"

namespace msitd::compare {

// Selects tensors by a text of the form `PATTERN[@io[/index]]`, such as
// `layers.*`, `*.attn@input` or `*@input/attention_mask`. PATTERN and index are
// patterns of GlobMatch; PATTERN matches the op. io is one of IoName. An @
// without such a name after it belongs to PATTERN.
//
// Immutable, hence thread-safe.
class TensorPattern {
 public:
  // Returns nullopt if PATTERN is empty or longer than kOpBytesMax.
  static std::optional<TensorPattern> Parse(std::string_view text);

  bool Matches(std::string_view op, Io io, std::string_view index) const;
  // Returns whether the pattern can match some tensor of the op.
  bool MatchesOp(std::string_view op) const;

 private:
  std::string op_pattern_;
  std::optional<Io> io_;
  std::optional<std::string> index_pattern_;
};

}  // namespace msitd::compare
