// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace msitd::msitctl {

// A folder for PYTHONPATH. Its module `sitecustomize`, which every Python that
// finds it runs first, has the package msitd record, and then runs the module
// of that name that it hides. Removed with this object. Thread-compatible.
class ExecSite {
 public:
  static absl::StatusOr<ExecSite> Make();

  ExecSite(ExecSite&& other) noexcept;
  ExecSite& operator=(ExecSite&&) = delete;
  ~ExecSite();

  const std::string& folder() const { return folder_; }

  // Whether a Python has found it.
  bool WasUsed() const;

  // The runs that Pythons have recorded, in the order in which they came.
  std::vector<std::string> Runs() const;

  // Whether a Python has said why it does not record, or not all.
  bool HasFailed() const;

 private:
  explicit ExecSite(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
};

}  // namespace msitd::msitctl
