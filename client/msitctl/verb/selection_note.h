// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/msitctl/flag/selection.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// Prints on stderr that a selection and a condition, which may be empty, match
// none of the tensors of a run, how many tensors it has, and an example of its
// ops. Prints nothing if the daemon does not answer.
void NoteNoTensor(Invocation& invocation, const std::string& run,
                  const SelectionFlags& selection, const std::string& where);

// Prints on stderr that flags match none of the rows of a comparison.
void NoteNoRow(const std::string& comparison, int64_t row_count,
               const std::string& flags);

}  // namespace msitd::msitctl
