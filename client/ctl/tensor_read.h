// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ctl/outcome.h"
#include "client/ctl/session.h"

namespace msitd::ctl {

struct ReadFlags {
  std::string name;
  std::string out;
  std::string format;  // "raw", "npy"; empty: by the end of `out`.
};

// Writes the bytes of one tensor to a file or to stdout. A stream that breaks
// with UNAVAILABLE is taken up where it broke.
Outcome ReadTensor(Session& session, const ReadFlags& flags);

}  // namespace msitd::ctl
