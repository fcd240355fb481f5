// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace msitd::match {

// Names of ops, of which those of fused ops are made: Mul_1Relu_2 is Mul_1 and
// Relu_2. Immutable, hence thread-safe.
class NameParts {
 public:
  // The names must outlive this. Empty ones do not count.
  explicit NameParts(std::vector<std::string_view> names);

  bool Has(std::string_view name) const;

  // Returns the names that make up the whole of `text`, each as long as it can
  // be; none if it is not made of names.
  std::vector<std::string_view> Split(std::string_view text) const;

  // The same, but each as long as it can be whether or not the rest is made of
  // names, and what is not is left out. Stops where a dumped op that is not
  // among the names is longer than any name: what msit does. `dumped` says
  // whether an op was dumped.
  template <typename IsDumped>
  std::vector<std::string_view> SplitGreedily(std::string_view text,
                                              const IsDumped& dumped) const {
    std::vector<std::string_view> out;
    while (!text.empty()) {
      const size_t size = LongestPrefix(text);
      if (size == 0) break;
      bool is_dumped = false;
      for (size_t i = text.size() - 1; i > size && !is_dumped; --i) {
        is_dumped = dumped(text.substr(0, i));
      }
      if (is_dumped) break;
      out.push_back(text.substr(0, size));
      text.remove_prefix(size);
    }
    return out;
  }

  // How long the longest name is that `text` begins with; 0 if none does.
  size_t LongestPrefix(std::string_view text) const;

 private:
  // Calls `take` with the length of each name that `text` begins with, in
  // ascending order.
  template <typename Take>
  void ForEachPrefix(std::string_view text, const Take& take) const;

  std::vector<std::string_view> names_;  // Ascending, each once.
};

}  // namespace msitd::match
