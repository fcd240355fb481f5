// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

namespace msitd::ctl {

// One line on stderr that is written over and over and is gone in the end.
// Thread-compatible.
class Progress {
 public:
  // Does nothing if not `enabled`. `width`: columns of the terminal; 0 for 80.
  Progress(bool enabled, size_t width);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows `text`, ten times a second at most, and not in the first tenth.
  void Show(std::string_view text);

  // Removes the line, so that something else can be written.
  void Clear();

 private:
  const bool enabled_;
  const size_t width_;
  bool visible_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace msitd::ctl
