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

// Rules that a policy may have, those of presets not counted.
inline constexpr size_t kUnmatchedRulesMax = 256;

// Which tensors either run may have alone. See Policy.allow_unmatched.
//
// Immutable, hence thread-safe.
class UnmatchedRules {
 public:
  // Neither run may have a tensor alone.
  UnmatchedRules() = default;

  // Errors: INVALID_ARGUMENT with FIELD_INVALID; the message begins with
  // `policy.allow_unmatched[0]: `.
  static absl::StatusOr<UnmatchedRules> Create(
      std::span<const std::string> texts);

  // Returns the text of the first rule for a tensor; null if there is none.
  // Lives as long as this.
  const std::string* Find(std::string_view op, Io io,
                          std::string_view index) const;

  // The texts, in their order.
  size_t text_count() const { return texts_.size(); }
  const std::string& text(size_t number) const { return texts_[number]; }
  // Marks the texts with a rule for tensors of `op`. `marks` has text_count()
  // entries.
  void Mark(std::string_view op, std::vector<bool>& marks) const;

 private:
  struct Rule {
    size_t text = 0;  // Number of the text that the rule comes from.
    TensorPattern pattern;
  };

  std::vector<std::string> texts_;
  std::vector<Rule> rules_;
};

}  // namespace msitd::compare
