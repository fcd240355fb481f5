// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ctl/invocation.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

struct ReadFlags {
  std::string name;
  std::string out;
  std::string format;  // "raw", "npy"; empty: by the end of `out`.
  bool sample = false;
};

// Writes the bytes of one tensor, or of its sample, to a file or to stdout, as
// ResumingRead does, with progress.
Outcome ReadTensor(Invocation& invocation, const ReadFlags& flags);

}  // namespace msitd::ctl
