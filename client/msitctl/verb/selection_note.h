// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/msitctl/flag/selection.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// Says on stderr that a selection and a condition, which may be empty, take
// none of the tensors of a run, how many it has, and how its ops look. Says
// nothing if the daemon does not answer.
void NoteNoTensor(Invocation& invocation, const std::string& run,
                  const SelectionFlags& selection, const std::string& where);

// Says on stderr that flags take none of the rows of a comparison.
void NoteNoRow(const std::string& comparison, int64_t row_count,
               const std::string& flags);

}  // namespace msitd::msitctl
