// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/face/types.h"

namespace msitd::storage {

// The runs of a store, and what is said of them. Changes are durable on return.
//
// NOT_FOUND with RUN_NOT_FOUND where there is none of that name,
// ALREADY_EXISTS with RUN_EXISTS where there is. Thread-safe.
class Runs {
 public:
  virtual ~Runs() = default;

  virtual absl::StatusOr<RunInfo> CreateRun(const RunSpec& spec) = 0;
  virtual absl::StatusOr<RunInfo> GetRun(std::string_view name) = 0;
  // Returns at most `limit` runs behind `after` in the order of names.
  virtual absl::StatusOr<std::vector<RunInfo>> ListRuns(std::string_view after,
                                                        size_t limit) = 0;

  // Lets no more chunks of the run in. Sealing a sealed run changes nothing.
  // Blocks on an append only if that has chunks of the run.
  virtual absl::StatusOr<RunInfo> SealRun(std::string_view name) = 0;
  // The run is gone on return. What it took, in the index and in segments that
  // only it used, goes at once, or with the next steps of Upkeep::Retain if
  // something else is at work. Blocks as SealRun does.
  virtual absl::Status DeleteRun(std::string_view name) = 0;

  // Sets the world size of a run that has none yet (0).
  virtual absl::StatusOr<RunInfo> SetWorldSize(std::string_view name,
                                               int32_t world_size) = 0;
  // Says of which launch a run is.
  virtual absl::StatusOr<RunInfo> SetJob(std::string_view name,
                                         std::string_view job) = 0;
  // Says when bytes of the run may go.
  virtual absl::StatusOr<RunInfo> SetRetention(
      std::string_view name, const RunRetention& retention) = 0;
  // Keeps what the clients of the run are to record.
  virtual absl::StatusOr<RunInfo> SetCapturePolicy(std::string_view name,
                                                   std::string_view policy) = 0;
};

}  // namespace msitd::storage
