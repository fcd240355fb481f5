// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "msitd/v1/dtype.pb.h"

namespace msitd::msitctl {

// PATTERN[@IO[/INDEX]], which selects tensors of some ops.
struct TensorPattern {
  std::string_view op_pattern;
  v1::Io io = v1::IO_UNSPECIFIED;
  std::optional<std::string_view> index = {};
};

// Parses a text such as `*.o_proj@output/0`. An `@` that is not followed by an
// io is part of the pattern. The result refers to the text.
TensorPattern ParseTensorPattern(std::string_view text);

// Sets the fields of a message that select tensors.
template <typename Message>
void SetTensorPattern(const TensorPattern& pattern, Message& message) {
  message.set_op_pattern(pattern.op_pattern.data(), pattern.op_pattern.size());
  message.set_io(pattern.io);
  if (pattern.index.has_value()) {
    message.set_index(pattern.index->data(), pattern.index->size());
  }
}

}  // namespace msitd::msitctl
