// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/foreign/write/export_context.h"
#include "client/foreign/write/layout.h"

namespace msitd::write {

// Writes the summaries of tensors, and numbers, as scalars for TensorBoard: a
// folder for each rank and device, with the token as the step. A tag is
// `OP/IO INDEX/VALUE`, so that TensorBoard groups by op. No bytes of tensors
// are read. Borrows `context`.
std::unique_ptr<Layout> MakeScalarLayout(ExportContext& context);

}  // namespace msitd::write
