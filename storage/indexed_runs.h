// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/append_gate.h"
#include "storage/disk_room.h"
#include "storage/env/env.h"
#include "storage/face/runs.h"
#include "storage/face/types.h"
#include "storage/index/index_gate.h"

namespace msitd::storage {

// The runs of a store, which are stored in its index. Thread-safe.
class IndexedRuns final : public Runs {
 public:
  // `on_hidden` is called, on any thread, after a run has been hidden. The
  // other arguments must outlive this object.
  IndexedRuns(IndexGate& index, Env& env, DiskRoom& room, AppendGate& appends,
              absl::AnyInvocable<void() const> on_hidden)
      : index_(index),
        env_(env),
        room_(room),
        appends_(appends),
        on_hidden_(std::move(on_hidden)) {}

  absl::StatusOr<RunInfo> CreateRun(const RunSpec& spec) override;
  absl::StatusOr<RunInfo> GetRun(std::string_view name) override;
  absl::StatusOr<std::vector<RunInfo>> ListRuns(std::string_view after,
                                                size_t limit) override;
  absl::StatusOr<RunInfo> SealRun(std::string_view name) override;
  absl::Status DeleteRun(std::string_view name) override;
  absl::StatusOr<RunInfo> SetWorldSize(std::string_view name,
                                       int32_t world_size) override;
  absl::StatusOr<RunInfo> SetJob(std::string_view name,
                                 std::string_view job) override;
  absl::StatusOr<RunContinuations> GetContinuations(std::string_view name,
                                                    int32_t rank) override;
  absl::Status SetContinuations(std::string_view name, int32_t rank,
                                const RunContinuations& continuations,
                                bool has_new_job) override;
  absl::StatusOr<RunInfo> EndRestore(std::string_view name) override;
  absl::StatusOr<RunInfo> SetRetention(std::string_view name,
                                       const RunRetention& retention) override;
  absl::StatusOr<RunInfo> SetCapturePolicy(std::string_view name,
                                           std::string_view policy) override;

 private:
  IndexGate& index_;
  Env& env_;
  DiskRoom& room_;
  AppendGate& appends_;
  absl::AnyInvocable<void() const> on_hidden_;
};

}  // namespace msitd::storage
