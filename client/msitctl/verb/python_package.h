// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ask/query/child_command.h"
#include "client/ask/query/connection.h"
#include "client/msitctl/invocation.h"

// Programs of the Python package msitd that do the work of a verb. They find
// the daemon by the variables of msitctl, and write their answer to a file.
namespace msitd::msitctl {

// The exit codes of these programs for a result, and for an error that they
// have printed on stderr.
inline constexpr int kPackageAnswered = 0;
inline constexpr int kPackageUsage = 2;
inline constexpr int kPackageLocal = 3;
inline constexpr int kPackageFailed = 5;
// Python's exit codes for signals begin here.
inline constexpr int kPackageSignal = 128;

// A folder that is removed with this object. Thread-compatible.
class ScratchFolder {
 public:
  // Errors: UNAVAILABLE if no folder can be made.
  static absl::StatusOr<ScratchFolder> Make();

  ScratchFolder(ScratchFolder&& other) noexcept;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();

  // Returns the path of a file in the folder.
  std::string File(std::string_view name) const;

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

// Returns the variables by which the package finds the daemon of `connection`.
ask::Environment PackageEnvironment(const ask::ConnectionOptions& connection);

// Runs a program of the package and waits for it. A signal ends it. Returns its
// exit code, and the errors of ask::RunCommand.
absl::StatusOr<int> RunPackage(Invocation& invocation,
                               const std::vector<std::string>& words);

}  // namespace msitd::msitctl
