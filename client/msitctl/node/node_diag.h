// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

struct DiagFlags {
  std::string out;            // Empty: a name with the current time.
  bool tensor_names = false;  // Also lists tensors of the runs.
};

// Writes a tar archive for troubleshooting a daemon, and prints its contents.
// It contains no bytes of tensors.
ask::Outcome WriteDiagnostics(Invocation& invocation, const DiagFlags& flags);

}  // namespace msitd::msitctl
