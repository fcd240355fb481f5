// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/foreign/write/writer/python_literal.h"

// Parsers of the repr of some Python objects that are not constants. They
// return nothing for other texts.
namespace msitd::write {

// A slice or a size: `slice(0, None, 2)`, `torch.Size([2, 3])`.
struct PythonSequence {
  bool is_slice = false;
  PythonLiteral items;  // A list.
};
std::optional<PythonSequence> SequenceIn(std::string_view text);

// Returns `cuda:0` for `device(type='cuda', index=0)`.
std::optional<std::string> DeviceIn(std::string_view text);

// Returns `channels_last` for `torch.channels_last`, and so on.
std::optional<std::string_view> MemoryFormatIn(std::string_view text);

}  // namespace msitd::write
