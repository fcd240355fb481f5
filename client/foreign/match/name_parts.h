// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace msitd::match {

// Names of ops that occur in names of fused ops: Mul_1Relu_2 consists of Mul_1
// and Relu_2. Immutable and therefore thread-safe.
class NameParts {
 public:
  // The names must outlive this object. Empty names are ignored.
  explicit NameParts(std::vector<std::string_view> names);

  bool Has(std::string_view name) const;

  // Returns the names of which `text` consists, each as long as possible; none
  // if it does not consist of names.
  std::vector<std::string_view> Split(std::string_view text) const;

  // The same, but each name is as long as possible whether or not the rest
  // consists of names, and other text is skipped. Stops where a dumped op that
  // is not among the names is longer than any name, as msit does. `dumped`
  // returns whether an op was dumped.
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

  // Returns the length of the longest name at the beginning of `text`; 0 if
  // there is none.
  size_t LongestPrefix(std::string_view text) const;

 private:
  // Calls `take` with the length of each name at the beginning of `text`, in
  // ascending order.
  template <typename Take>
  void ForEachPrefix(std::string_view text, const Take& take) const;

  std::vector<std::string_view> names_;  // Ascending, each once.
};

}  // namespace msitd::match
