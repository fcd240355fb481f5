// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

namespace msitd::ask {

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

  // Removes the line, so that something else can be written.
  void Clear();

 private:
  const bool enabled_;
  const size_t width_;
  bool visible_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace msitd::ask
