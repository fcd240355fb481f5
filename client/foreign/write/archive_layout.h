// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "client/foreign/write/export_context.h"
#include "client/foreign/write/layout.h"

namespace msitd::write {

// Most tensors of one archive, and most bytes of their names: what our own
// readers take. A rank and token with more has several archives.
inline constexpr size_t kArchiveTensorsMax = 65'536;
inline constexpr size_t kArchiveNameBytesMax = size_t{8} << 20;

// An archive for each rank and token, `.npz` or `.safetensors`, and
// `tensors.jsonl`. Borrows `context`.
std::unique_ptr<Layout> MakeArchiveLayout(ExportContext& context);

}  // namespace msitd::write
