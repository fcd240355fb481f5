// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace msitd::ask {

void Output::Write(std::string_view text) {
  if (error_number_ != 0) return;
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) {
    error_number_ = errno;
  }
}

void Output::Flush() {
  if (error_number_ == 0 && std::fflush(file_) != 0) error_number_ = errno;
}

Outcome Output::Finish() {
  if (std::fflush(file_) != 0 && error_number_ == 0) error_number_ = errno;
  if (error_number_ == 0) return {};
  return LocalError(fmt::format(
      "write to stdout: {}", std::generic_category().message(error_number_)));
}

}  // namespace msitd::ask
