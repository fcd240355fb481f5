// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace msitd::fill {

// Lists the first entries that could not be imported, and counts the reasons.
// Thread-compatible.
class ImportProblems {
 public:
  // Entries that are listed individually. Further ones are only counted.
  static constexpr size_t kListedMax = 1000;
  // Reasons that are distinguished. Further ones are counted together.
  static constexpr size_t kReasonsMax = 64;

  struct Problem {
    std::string file;
    std::string reason;
  };

  // `reason` may begin with the name of the file.
  void Add(std::string file, const absl::Status& reason);

  const std::vector<Problem>& listed() const { return listed_; }
  // Keyed by the reason without its numbers.
  const std::map<std::string, int64_t>& counts() const { return counts_; }
  int64_t count() const { return count_; }

  // Returns true if a later import of the same tree may succeed with more: a
  // file was truncated or could not be read.
  bool may_pass() const { return may_pass_; }

  // Returns whether such a problem can disappear in a later import.
  static bool MayPass(const absl::Status& reason);

 private:
  std::vector<Problem> listed_;
  std::map<std::string, int64_t> counts_;
  int64_t count_ = 0;
  bool may_pass_ = false;
};

}  // namespace msitd::fill
