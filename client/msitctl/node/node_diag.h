// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

struct DiagFlags {
  std::string out;            // Empty: a name made of the time.
  bool tensor_names = false;  // Lists tensors of the runs, too.
};

// Writes a tar archive of what helps to find out what is wrong with a daemon,
// and says what is in it. It holds no bytes of tensors.
ask::Outcome WriteDiagnostics(Invocation& invocation, const DiagFlags& flags);

}  // namespace msitd::msitctl
