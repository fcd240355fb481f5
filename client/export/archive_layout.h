// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "client/export/export_context.h"
#include "client/export/layout.h"

namespace msitd::exports {

// Most tensors of one archive, and most bytes of their names: what our own
// readers take. A rank and token with more has several archives.
inline constexpr size_t kArchiveTensorsMax = 65'536;
inline constexpr size_t kArchiveNameBytesMax = size_t{8} << 20;

// An archive for each rank and token, `.npz` or `.safetensors`, and
// `tensors.jsonl`. Borrows `context`.
std::unique_ptr<Layout> MakeArchiveLayout(ExportContext& context);

}  // namespace msitd::exports
