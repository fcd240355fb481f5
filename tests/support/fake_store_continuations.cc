// SPDX-License-Identifier: Apache-2.0
#include "protos/base/error_reason.h"
#include "protos/status/status.h"
#include "tests/support/fake_store.h"

// The places where jobs continue runs, in memory.
namespace msitd::testing {
namespace {

absl::Status NoSuchRun(std::string_view name) {
  return WithReason(
      MakeStatus(absl::StatusCode::kNotFound, "there is no run {}", name),
      ErrorReason::kRunNotFound);
}

}  // namespace

absl::StatusOr<storage::RunContinuations> FakeStore::GetContinuations(
    std::string_view name, int32_t rank) {
  MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return NoSuchRun(name);
  storage::RunContinuations out{.jobs = it->second.continuations, .rank = {}};
  const auto known = it->second.continued.find(rank);
  if (known != it->second.continued.end()) out.rank = known->second;
  return out;
}

absl::Status FakeStore::SetContinuations(
    std::string_view name, int32_t rank,
    const storage::RunContinuations& continuations, bool has_new_job) {
  MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return NoSuchRun(name);
  if (has_new_job) it->second.continuations = continuations.jobs;
  if (continuations.rank.has_value()) {
    it->second.continued[rank] = *continuations.rank;
  }
  return absl::OkStatus();
}

}  // namespace msitd::testing
