// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace msitd::formats {

// The objects of a file that are neither tensors nor containers of them, such
// as numbers of NumPy: their number, and the first of them as text.
class ObjectList {
 public:
  // A state of the list, to which it can be cut.
  struct Mark {
    uint64_t count = 0;
    size_t size = 0;
  };

  // Adds an object at `path` that the global `name` of `module` creates.
  void Add(std::string_view path, std::string_view module,
           std::string_view name);

  Mark End() const { return {count_, first_.size()}; }
  void CutTo(const Mark& mark);

  uint64_t count() const { return count_; }
  // Returns `loss (a NumPy number), x (module.Class)`.
  const std::string& first() const { return first_; }

 private:
  uint64_t count_ = 0;
  std::string first_;
};

}  // namespace msitd::formats
