// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/status/status.h"
#include "storage/face/continuations.h"
#include "storage/face/types.h"

namespace msitd::storage {

// Returns FAILED_PRECONDITION with RUN_RESTORING.
inline absl::Status RunRestoring(std::string_view name) {
  return WithMetadata(
      WithReason(
          MakeStatus(absl::StatusCode::kFailedPrecondition,
                     "run '{}' is being restored: not all of it is there",
                     name),
          ErrorReason::kRunRestoring),
      "run", name);
}

// The runs of a store and their settings. Changes are durable on return.
//
// Returns NOT_FOUND with RUN_NOT_FOUND if there is no run with the name;
// CreateRun returns ALREADY_EXISTS with RUN_EXISTS if there is one.
// Thread-safe.
class Runs {
 public:
  virtual ~Runs() = default;

  virtual absl::StatusOr<RunInfo> CreateRun(const RunSpec& spec) = 0;
  virtual absl::StatusOr<RunInfo> GetRun(std::string_view name) = 0;
  // Returns at most `limit` runs after `after`, ordered by name.
  virtual absl::StatusOr<std::vector<RunInfo>> ListRuns(std::string_view after,
                                                        size_t limit) = 0;

  // Ends the run: it accepts no more chunks. Sealing a sealed run has no
  // effect. Waits for an append only if it has chunks of the run.
  virtual absl::StatusOr<RunInfo> SealRun(std::string_view name) = 0;
  // The run no longer exists on return. Its space in the index and the segments
  // that only it used are freed immediately, or by the next steps of
  // Upkeep::Retain if other work is in progress. Blocks as SealRun does.
  virtual absl::Status DeleteRun(std::string_view name) = 0;

  // Sets the world size of a run whose world size is still 0.
  virtual absl::StatusOr<RunInfo> SetWorldSize(std::string_view name,
                                               int32_t world_size) = 0;
  // Sets the launch that a run belongs to.
  virtual absl::StatusOr<RunInfo> SetJob(std::string_view name,
                                         std::string_view job) = 0;
  // Returns the points where jobs continue the run, and the last continuation
  // that `rank` took part in.
  virtual absl::StatusOr<RunContinuations> GetContinuations(
      std::string_view name, int32_t rank) = 0;
  // Stores the continuation that `rank`, which is set in `continuations`, takes
  // part in. The jobs of the run are stored only if `has_new_job`.
  virtual absl::Status SetContinuations(std::string_view name, int32_t rank,
                                        const RunContinuations& continuations,
                                        bool has_new_job) = 0;
  // Sets when bytes of the run may be discarded.
  virtual absl::StatusOr<RunInfo> SetRetention(
      std::string_view name, const RunRetention& retention) = 0;
  // Marks a run that was created as being restored as complete.
  virtual absl::StatusOr<RunInfo> EndRestore(std::string_view name) = 0;
  // Sets the capture policy of the clients of the run.
  virtual absl::StatusOr<RunInfo> SetCapturePolicy(std::string_view name,
                                                   std::string_view policy) = 0;
};

}  // namespace msitd::storage
