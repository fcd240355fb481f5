// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/foreign/write/export_context.h"
#include "client/foreign/write/layout.h"

namespace msitd::write {

// Writes a file for each record, `.npy` or `.pt`, and `tensors.jsonl`. Borrows
// `context`.
std::unique_ptr<Layout> MakeFileLayout(ExportContext& context);

}  // namespace msitd::write
