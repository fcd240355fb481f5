// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "client/ask/text/text.h"

namespace msitd::ask {
namespace {

constexpr std::chrono::milliseconds kInterval(100);
constexpr char kEraseLine[] = "\r\x1b[K";

// When an estimate of the remaining time begins to be useful.
constexpr double kEstimateAfterSeconds = 2;
constexpr double kEstimateAfterShare = 0.01;

}  // namespace

std::string ProportionText(double done, double total, double elapsed) {
  if (total <= 0) return "";
  // More may be done than was expected, in runs that still grow.
  const double share = std::clamp(done / total, 0.0, 1.0);
  std::string out = fmt::format(", {:.0f} %", std::floor(100 * share));
  if (elapsed >= kEstimateAfterSeconds && share >= kEstimateAfterShare) {
    out += fmt::format(
        ", {} left", HumanDuration(std::round(elapsed * (1 - share) / share)));
  }
  return out;
}

Progress::Progress(bool enabled, size_t width)
    : enabled_(enabled),
      width_(width == 0 ? 80 : width),
      start_(std::chrono::steady_clock::now()),
      // Short work shows no progress.
      next_(start_ + kInterval) {}

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

void Progress::Show(std::string_view text, double done, double total) {
  const std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start_;
  Show(std::string(text) + ProportionText(done, total, elapsed.count()));
}

void Progress::Clear() {
  if (!visible_) return;
  visible_ = false;
  std::fputs(kEraseLine, stderr);
  std::fflush(stderr);
}

}  // namespace msitd::ask
