// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/progress.h"

#include <fmt/format.h>

#include <cstdio>

#include "client/ask/text/text.h"

namespace msitd::ask {
namespace {

constexpr std::chrono::milliseconds kInterval(100);
constexpr char kEraseLine[] = "\r\x1b[K";

}  // namespace

Progress::Progress(bool enabled, size_t width)
    : enabled_(enabled),
      width_(width == 0 ? 80 : width),
      // Short work shows no progress.
      next_(std::chrono::steady_clock::now() + kInterval) {}

void Progress::Show(std::string_view text) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  visible_ = true;
  // The last column stays free: some terminals wrap when it is written.
  fmt::print(stderr, "{}{}", kEraseLine, Shorten(Printable(text), width_ - 1));
  std::fflush(stderr);
}

void Progress::Clear() {
  if (!visible_) return;
  visible_ = false;
  std::fputs(kEraseLine, stderr);
  std::fflush(stderr);
}

}  // namespace msitd::ask
