// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "storage/face/continuations.h"

// At which token a recording that appends to a run begins.
//
// All ranks of a launch begin a recording at the same token, although they open
// their streams at different times, when the run ends at different tokens. So
// the first rank of a job determines the token, and it is stored with the run:
// a daemon that restarts in the middle of a launch gives the other ranks the
// same one.
namespace msitd::ingest {

struct Continued {
  int64_t first_token = 0;
  // True if `continuations` has something to be stored; `has_new_job` if that
  // is more than the rank.
  bool has_changed = false;
  bool has_new_job = false;
};

// Has a stream of `job` take part in the continuations of a run whose highest
// token is `token_end` - 1. The first rank of the job begins a continuation,
// and later ranks join it, also if other jobs have continued the run since. A
// rank that comes again with the same job, in another stream, begins another
// one.
//
// `continuations` are those of the run and the rank; they are changed. At
// kContinuationsMax jobs, the one that began first is forgotten.
Continued Continue(storage::RunContinuations& continuations,
                   std::string_view job, uint64_t stream_id, int64_t token_end);

// True if ranks of `job` have continued the run.
bool HasContinued(const storage::RunContinuations& continuations,
                  std::string_view job);

}  // namespace msitd::ingest
