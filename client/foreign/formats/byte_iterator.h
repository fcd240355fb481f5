// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "client/foreign/formats/byte_source.h"

namespace msitd::formats {

// The bytes of a file, for a parser that reads forward. A read error looks like
// the end of the file.
class ByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  ByteIterator() = default;
  explicit ByteIterator(const ByteSource& bytes)
      : window_(std::make_shared<Window>(Window{bytes})) {
    Load();
  }

  reference operator*() const { return window_->text[window_->at]; }
  ByteIterator& operator++() {
    ++window_->at;
    Load();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const ByteIterator& a, const ByteIterator& b) {
    return a.is_end() == b.is_end();
  }
  friend bool operator!=(const ByteIterator& a, const ByteIterator& b) {
    return !(a == b);
  }

 private:
  static constexpr uint64_t kWindowBytes = uint64_t{256} << 10;
  struct Window {
    const ByteSource& bytes;
    uint64_t next = 0;
    std::string text = {};
    size_t at = 0;
  };

  bool is_end() const {
    return window_ == nullptr || window_->at == window_->text.size();
  }
  void Load() {
    Window& window = *window_;
    if (window.at < window.text.size()) return;
    const uint64_t left = window.bytes.size() - window.next;
    auto text =
        window.bytes.ReadText(window.next, std::min(left, kWindowBytes));
    window.text = text.ok() ? *std::move(text) : std::string();
    window.next += window.text.size();
    window.at = 0;
  }

  std::shared_ptr<Window> window_;
};

}  // namespace msitd::formats
