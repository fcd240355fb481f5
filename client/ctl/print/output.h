// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string_view>

#include "client/query/outcome.h"

namespace msitd::ctl {

// stdout, or a file in its place. Keeps the first error, after which nothing
// more is written. Thread-compatible.
class Output {
 public:
  // Borrows `file`.
  explicit Output(std::FILE* file) : file_(file) {}

  void Write(std::string_view text);

  // Writes out what is buffered; Finish tells of an error.
  void Flush();

  // Writes out what is buffered; returns the first error of all.
  Outcome Finish();

 private:
  std::FILE* const file_;
  int error_number_ = 0;
};

}  // namespace msitd::ctl
