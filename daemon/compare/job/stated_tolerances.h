// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/judge/stated_tolerance.h"
#include "daemon/compare/match/tensor_group.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// The statements of a golden run on the tensors of a group; see
// protos/base/tolerance_record.h. Takes about 300 bytes for each tensor of the
// group that has a statement. Immutable.
class StatedTolerances {
 public:
  // States nothing.
  StatedTolerances() = default;

  // Reads the statements on the tensors of `group`. Groups of shards and of
  // requests have none.
  //
  // Errors: those of the reader and of `stop`.
  static absl::StatusOr<StatedTolerances> Read(storage::RunReader& golden,
                                               const TensorGroup& group,
                                               storage::StopCheck stop);

  // Returns statements by which nothing is known about any tensor, because they
  // cannot be read.
  static StatedTolerances Unreadable(const absl::Status& error);

  // Returns the statement that applies to a pair; null if there is none.
  std::shared_ptr<const StatedTolerance> Find(const TensorPair& pair) const;

 private:
  // Applies to all tensors if set.
  std::shared_ptr<const StatedTolerance> for_all_;
  std::map<std::string, std::shared_ptr<const StatedTolerance>> by_tensor_;
};

}  // namespace msitd::compare
