// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ctl/command/resuming_read.h"
#include "client/ctl/invocation.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

// Gives the bytes of `tensor`, of which name and size_bytes count, to `sink`,
// as ResumingRead does.
Outcome ReadTensorBytes(Invocation& invocation, const v1::Tensor& tensor,
                        const ByteSink& sink);

struct ReadFlags {
  std::string name;
  std::string out;
  std::string format;  // "raw", "npy"; empty: by the end of `out`.
  bool sample = false;
};

// Writes the bytes of one tensor, or of its sample, to a file or to stdout, as
// ReadTensorBytes does, with progress.
Outcome ReadTensor(Invocation& invocation, const ReadFlags& flags);

}  // namespace msitd::ctl
