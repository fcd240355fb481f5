// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "storage/face/continuations.h"

// The token at which a recording that appends to a run begins.
//
// All ranks of a launch must begin a recording at the same token, although they
// open their streams at different times, when the run may end at different
// tokens. The first rank of a job therefore determines the token, which is
// stored with the run. A daemon that restarts during a launch gives the
// remaining ranks the same token.
namespace msitd::ingest {

struct Continued {
  int64_t first_token = 0;
  // `has_changed`: the continuations of the rank must be stored. `has_new_job`:
  // those of the run must be stored as well.
  bool has_changed = false;
  bool has_new_job = false;
};

// Adds a stream of `job` to the continuations of a run whose highest token is
// `token_end` - 1. The first rank of the job begins a continuation. Later ranks
// join it, even if other jobs have continued the run in the meantime. A rank
// that returns with the same job in a different stream begins another
// continuation.
//
// `continuations` contains the continuations of the run and of the rank, and is
// updated. When there are kContinuationsMax jobs, the oldest one is removed.
Continued Continue(storage::RunContinuations& continuations,
                   std::string_view job, uint64_t stream_id, int64_t token_end);

// Returns whether ranks of `job` have continued the run.
bool HasContinued(const storage::RunContinuations& continuations,
                  std::string_view job);

}  // namespace msitd::ingest
