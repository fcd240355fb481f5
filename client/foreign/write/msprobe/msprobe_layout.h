// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/foreign/write/export_context.h"
#include "client/foreign/write/layout.h"

namespace msitd::write {

// Limits for the records of one rank and token, and for the bytes of their
// stacks, from which documents of msprobe are created. Returns
// RESOURCE_EXHAUSTED beyond these.
inline constexpr size_t kMsprobeRowsMax = size_t{1} << 20;
inline constexpr size_t kMsprobeStackBytesMax = size_t{256} << 20;

// Writes folders as msprobe does: step1/rank0 with dump.json, stack.json,
// construct.json and dump_tensor_data. Documents of these names in the run are
// written unchanged if they name the files that are written. Otherwise, and if
// only some of the ops, sides or devices are selected, they are created from
// the records. Borrows `context`.
std::unique_ptr<Layout> MakeMsprobeLayout(ExportContext& context);

}  // namespace msitd::write
