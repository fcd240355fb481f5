// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

struct ReadFlags {
  std::string name;
  std::string out;
  std::string
      format;  // "raw", "npy". Empty: determined by the extension of `out`.
  bool sample = false;
};

// Writes the bytes of one tensor, or of its sample, to a file or to stdout,
// like ResumingRead, with progress.
ask::Outcome ReadTensor(Invocation& invocation, const ReadFlags& flags);

}  // namespace msitd::msitctl
