// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ctl/invocation.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

struct DiagFlags {
  std::string out;            // Empty: a name made of the time.
  bool tensor_names = false;  // Lists tensors of the runs, too.
};

// Writes a tar archive of what helps to find out what is wrong with a daemon,
// and says what is in it. It holds no bytes of tensors.
Outcome WriteDiagnostics(Invocation& invocation, const DiagFlags& flags);

}  // namespace msitd::ctl
