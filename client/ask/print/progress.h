// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace msitd::ask {

// Returns `, 42 %, 1m10s left`, for `done` of `total` units after `elapsed`
// seconds. The time is missing in the first two seconds and below one percent,
// when it would be a guess. Empty if the total is not known, that is, 0.
std::string ProportionText(double done, double total, double elapsed);

// One line on stderr that is overwritten repeatedly, and removed at the end.
// Thread-compatible.
class Progress {
 public:
  // Does nothing unless `enabled`. `width` is the number of columns of the
  // terminal. 0 stands for 80.
  Progress(bool enabled, size_t width);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows `text`, at most ten times a second, and not in the first tenth of a
  // second.
  void Show(std::string_view text);

  // The same, followed by ProportionText since the creation of this object.
  void Show(std::string_view text, double done, double total);

  // Removes the line, so that something else can be written.
  void Clear();

 private:
  const bool enabled_;
  const size_t width_;
  const std::chrono::steady_clock::time_point start_;
  bool visible_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace msitd::ask
