// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/ctl/session.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

// Takes the next bytes of a tensor; an error ends the reading.
using TensorSink = std::function<absl::Status(std::string_view)>;

// Gives the bytes of `tensor`, of which name and size_bytes count, to `sink`. A
// stream that breaks with UNAVAILABLE is taken up where it broke. A failure of
// the sink is a local error.
Outcome ReadTensorBytes(Session& session, const v1::Tensor& tensor,
                        const TensorSink& sink);

struct ReadFlags {
  std::string name;
  std::string out;
  std::string format;  // "raw", "npy"; empty: by the end of `out`.
  bool sample = false;
};

// Writes the bytes of one tensor, or of its sample, to a file or to stdout, as
// ReadTensorBytes does, with progress.
Outcome ReadTensor(Session& session, const ReadFlags& flags);

}  // namespace msitd::ctl
