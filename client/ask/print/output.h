// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string_view>

#include "client/ask/query/outcome.h"

namespace msitd::ask {

// stdout, or a file in its place. Writes nothing after the first error, which
// it keeps. Thread-compatible.
class Output {
 public:
  // Borrows `file`.
  explicit Output(std::FILE* file) : file_(file) {}

  void Write(std::string_view text);

  // Writes out what is buffered. Finish reports an error.
  void Flush();

  // Writes out what is buffered. Returns the first error since the beginning.
  Outcome Finish();

 private:
  std::FILE* const file_;
  int error_number_ = 0;
};

}  // namespace msitd::ask
