// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::write {

// Where the records of a run go. All errors end the export.
class Layout {
 public:
  virtual ~Layout() = default;

  // True if the records of a rank and token have to come together. Otherwise
  // BeginGroup and EndGroup are not called.
  virtual bool is_grouped() const { return true; }

  // What comes is of another rank. `tree`: its document `model_tree.json`, or
  // else `module_tree.json`; empty without one.
  virtual absl::Status BeginRank(const std::string& /*tree*/) {
    return absl::OkStatus();
  }
  // The documents of a group come first.
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
