// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "client/foreign/write/export_context.h"
#include "client/foreign/write/layout.h"

namespace msitd::write {

// Limits for the tensors of one archive, and for the bytes of their names,
// which msitd's readers accept. A rank and token with more tensors has several
// archives.
inline constexpr size_t kArchiveTensorsMax = 65'536;
inline constexpr size_t kArchiveNameBytesMax = size_t{8} << 20;

// Writes an archive for each rank and token, `.npz` or `.safetensors`, and
// `tensors.jsonl`. Borrows `context`.
std::unique_ptr<Layout> MakeArchiveLayout(ExportContext& context);

}  // namespace msitd::write
