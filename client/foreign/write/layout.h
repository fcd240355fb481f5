// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::write {

// Receives the records of a run. All errors end the export.
class Layout {
 public:
  virtual ~Layout() = default;

  // Returns true if the records of a rank and token must be passed together.
  // Otherwise, BeginGroup and EndGroup are not called.
  virtual bool is_grouped() const { return true; }

  // Called before the records of another rank. `tree` is its document
  // `model_tree.json` or, without it, `module_tree.json`. Empty if there is
  // neither.
  virtual absl::Status BeginRank(const std::string& /*tree*/) {
    return absl::OkStatus();
  }
  // The documents of a group are first.
  virtual absl::Status BeginGroup(int32_t /*rank*/, int64_t /*token*/) {
    return absl::OkStatus();
  }
  virtual absl::Status Add(const v1::Tensor& record) = 0;
  virtual absl::Status EndGroup() { return absl::OkStatus(); }

  // Called once, also if the export ends early, unless a file cannot be
  // written.
  virtual absl::Status Finish() { return absl::OkStatus(); }
};

}  // namespace msitd::write
