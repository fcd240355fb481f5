// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/continue_run.h"

#include <algorithm>
#include <string>

namespace msitd::ingest {
namespace {

auto FindJob(const storage::RunContinuations& continuations,
             std::string_view job) {
  return std::find_if(continuations.jobs.begin(), continuations.jobs.end(),
                      [job](const auto& each) { return each.job == job; });
}

uint64_t LastNumber(const storage::RunContinuations& continuations) {
  uint64_t last = continuations.rank ? continuations.rank->number : 0;
  if (!continuations.jobs.empty()) {
    last = std::max(last, continuations.jobs.back().number);
  }
  return last;
}

}  // namespace

Continued Continue(storage::RunContinuations& continuations,
                   std::string_view job, uint64_t stream_id,
                   int64_t token_end) {
  Continued out;
  const auto& rank = continuations.rank;
  const auto found = FindJob(continuations, job);
  storage::RankContinuation own{.number = 0, .stream_id = stream_id};
  // Ranks join continuations in the order of the continuations.
  const bool joins =
      found != continuations.jobs.end() &&
      (!rank || rank->stream_id == stream_id || rank->number < found->number);
  if (joins) {
    out.first_token = found->first_token;
    own.number = found->number;
  } else {
    own.number = LastNumber(continuations) + 1;
    out.first_token = token_end;
    out.has_new_job = true;
    if (found != continuations.jobs.end()) {
      continuations.jobs.erase(found);
    } else if (continuations.jobs.size() >= storage::kContinuationsMax) {
      continuations.jobs.erase(continuations.jobs.begin());
    }
    continuations.jobs.push_back({std::string(job), own.number, token_end});
  }
  out.has_changed = out.has_new_job || rank != own;
  continuations.rank = own;
  return out;
}

bool HasContinued(const storage::RunContinuations& continuations,
                  std::string_view job) {
  return FindJob(continuations, job) != continuations.jobs.end();
}

}  // namespace msitd::ingest
