// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/export/export_context.h"
#include "client/export/layout.h"

namespace msitd::exports {

// The folder that msit dumps a torch model into:
// msit_dump_<time>/torch_tensors/<device>_<rank>/<token>/<op>. Borrows
// `context`.
std::unique_ptr<Layout> MakeMsitLayout(ExportContext& context);

}  // namespace msitd::exports
