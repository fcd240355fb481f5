// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace msitd::msitctl {

// A folder for PYTHONPATH. Python runs its module `sitecustomize` first. The
// module starts recording with the package msitd, and then runs the module of
// the same name that it hides. Removed with this object. Thread-compatible.
class ExecSite {
 public:
  static absl::StatusOr<ExecSite> Make();

  ExecSite(ExecSite&& other) noexcept;
  ExecSite& operator=(ExecSite&&) = delete;
  ~ExecSite();

  const std::string& folder() const { return folder_; }

  // Returns whether a Python process has used it.
  bool WasUsed() const;

  // Returns the runs that Python processes have recorded, in the order in which
  // they were reported.
  std::vector<std::string> Runs() const;

  // Returns whether a Python process has reported that its model computes as
  // the variation of this run demands.
  bool WasVaried() const;

  // Returns whether a Python process has reported that it cannot record, or not
  // everything.
  bool HasFailed() const;

 private:
  explicit ExecSite(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
};

}  // namespace msitd::msitctl
