// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/judge/tensor_pattern.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {

// Maximum number of texts in Policy.allow_unmatched. A preset counts as one,
// regardless of how many patterns it has.
inline constexpr size_t kUnmatchedRulesMax = 256;

// The tensors that are allowed to exist in only one run. See
// Policy.allow_unmatched.
//
// Immutable, hence thread-safe.
class UnmatchedRules {
 public:
  // Allows no tensor.
  UnmatchedRules() = default;

  // Each text is a TensorPattern, or a preset of patterns such as
  // `@sdpa-eager`.
  //
  // Errors: INVALID_ARGUMENT with FIELD_INVALID if a text is invalid or there
  // are too many. The message begins with the field, such as
  // `policy.allow_unmatched[0]: `.
  static absl::StatusOr<UnmatchedRules> Create(
      std::span<const std::string> texts);

  // Returns the first text that allows the tensor; null if there is none. The
  // result is valid as long as this object.
  const std::string* Find(std::string_view op, Io io,
                          std::string_view index) const;

  // The texts, as given to Create and in that order.
  size_t text_count() const { return texts_.size(); }
  const std::string& text(size_t number) const { return texts_[number]; }
  // Sets the marks of all texts that can allow a tensor of `op`. `marks` must
  // have text_count() entries.
  void Mark(std::string_view op, std::vector<bool>& marks) const;

 private:
  struct Rule {
    size_t text = 0;  // Index of the text that contains the pattern.
    TensorPattern pattern;
  };

  std::vector<std::string> texts_;
  std::vector<Rule> rules_;
};

}  // namespace msitd::compare
