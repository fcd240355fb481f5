// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/export/export_context.h"
#include "client/export/layout.h"

namespace msitd::exports {

// A file for each record, `.npy` or `.pt`, and `tensors.jsonl`. Borrows
// `context`.
std::unique_ptr<Layout> MakeFileLayout(ExportContext& context);

}  // namespace msitd::exports
