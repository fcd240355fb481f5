// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/foreign/write/export_context.h"
#include "client/foreign/write/layout.h"

namespace msitd::write {

// Most records of one rank and token, and most bytes of their stacks, that the
// documents of msprobe are made of. RESOURCE_EXHAUSTED beyond.
inline constexpr size_t kMsprobeRowsMax = size_t{1} << 20;
inline constexpr size_t kMsprobeStackBytesMax = size_t{256} << 20;

// Folders as msprobe writes them: step1/rank0 with dump.json, stack.json,
// construct.json and dump_tensor_data. Documents of these names that the run
// has are given back as they are if they name the files that are written.
// Otherwise, and if only some of its ops, sides or devices are selected, they
// are made of the records. Borrows `context`.
std::unique_ptr<Layout> MakeMsprobeLayout(ExportContext& context);

}  // namespace msitd::write
