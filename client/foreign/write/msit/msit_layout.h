// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/foreign/write/export_context.h"
#include "client/foreign/write/layout.h"

namespace msitd::write {

// Writes the folder of msit's dumps of a torch model:
// msit_dump_<time>/torch_tensors/<device>_<rank>/<token>/<op>. Borrows
// `context`.
std::unique_ptr<Layout> MakeMsitLayout(ExportContext& context);

}  // namespace msitd::write
