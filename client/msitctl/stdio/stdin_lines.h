// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "client/ask/query/outcome.h"
#include "protos/os/unique_fd.h"

namespace msitd::msitctl {

// Maximum length of a line from a program.
inline constexpr size_t kStdinLineBytesMax = size_t{1} << 20;

// The lines of a pipe or file, without their ends. Thread-compatible.
class StdinLines {
 public:
  explicit StdinLines(UniqueFd fd) : fd_(std::move(fd)) {}

  // Reads the next line; none at the end. Errors: a line that is longer than
  // kStdinLineBytesMax, and those of the system.
  ask::Outcome Next(std::optional<std::string>& line);

 private:
  const UniqueFd fd_;
  std::string read_;
};

}  // namespace msitd::msitctl
