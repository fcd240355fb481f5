// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/acl/reporter.h"

#include <unistd.h>

#include <algorithm>
#include <exception>

namespace msitd::acl {
namespace {

// Bytes of a path that are printed.
constexpr size_t kShownBytesMax = 500;

// Attempts for lack of memory.
constexpr int kTriesMax = 4;

}  // namespace

void Reporter::Say(std::string_view message, std::string_view file) noexcept {
  for (int i = 0; i < kTriesMax; ++i) {
    try {
      return TrySay(message, file);
    } catch (const std::exception&) {
      // The host process continues without the message.
    }
  }
}

void Reporter::TrySay(std::string_view message, std::string_view file) {
  std::string line = "libmsit_acl: ";
  if (!file.empty()) {
    line += file.substr(0, kShownBytesMax);
    line += ": ";
  }
  line += message;
  std::replace_if(
      line.begin(), line.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      '_');
  line += '\n';
  {
    const MutexLock lock(mu_);
    if (said_.size() >= kMessagesMax) return;
    if (!said_.emplace(message).second) return;
  }
  // Other processes write to the same file, so each line is written in one
  // call.
  const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);
}

}  // namespace msitd::acl
