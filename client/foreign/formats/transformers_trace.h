// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "client/foreign/formats/file_entry.h"

namespace msitd::formats {

// Returns true for the first bytes of a trace.
bool IsTransformersTrace(std::string_view first_bytes);

// Opens the JSON that `model_addition_debugger_context` of Hugging Face's
// transformers writes: `*_debug_tree_FULL_TENSORS.json` or `*_SUMMARY.json`. It
// is a tree of modules with their inputs and outputs.
//
// The op of a tensor is the path of its module; if a module was called again,
// `/call<N>` follows, counted from 1. The index is that of msitd: `0`, `1.0`,
// or the name of a keyword.
//
// With `use_repr=False`, the trace names a safetensors file for each tensor,
// whose bytes are delivered. Only files in `folder` are opened, and no links.
// A file that several calls name has the tensor of the last one. All other
// tensors have only a printed form that omits elements, and are delivered as
// statistics, with the digits that torch prints.
OpenedFile OpenTransformersTrace(std::shared_ptr<const ByteSource> bytes,
                                 const std::string& folder);

}  // namespace msitd::formats
