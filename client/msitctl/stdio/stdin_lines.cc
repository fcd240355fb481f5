// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/stdio/stdin_lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace msitd::msitctl {
namespace {

constexpr size_t kReadBytes = size_t{1} << 16;

}  // namespace

ask::Outcome StdinLines::Next(std::optional<std::string>& line) {
  line.reset();
  size_t end = read_.find('\n');
  while (end == std::string::npos) {
    if (read_.size() > kStdinLineBytesMax) {
      return ask::LocalError(fmt::format(
          "a line of stdin is longer than {} bytes", kStdinLineBytesMax));
    }
    char buffer[kReadBytes];
    const ssize_t count = read(fd_.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return ask::LocalError(fmt::format(
          "read stdin: {}", std::generic_category().message(errno)));
    }
    if (count == 0) return {};
    const size_t before = read_.size();
    read_.append(buffer, static_cast<size_t>(count));
    end = read_.find('\n', before);
  }
  line = read_.substr(0, end);
  read_.erase(0, end + 1);
  return {};
}

}  // namespace msitd::msitctl
