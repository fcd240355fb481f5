// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace msitd::fill {

// What could not be imported, and why: the first ones, and how many there are
// for each reason. Thread-compatible.
class ImportProblems {
 public:
  // Listed one by one; the rest is counted.
  static constexpr size_t kListedMax = 1000;
  // Reasons that are told apart; the rest is one of them.
  static constexpr size_t kReasonsMax = 64;

  struct Problem {
    std::string file;
    std::string reason;
  };

  // `reason` may begin with the name of the file.
  void Add(std::string file, const absl::Status& reason);

  const std::vector<Problem>& listed() const { return listed_; }
  // By reason, with numbers in it left out.
  const std::map<std::string, int64_t>& counts() const { return counts_; }
  int64_t count() const { return count_; }

  // True if a later import of the same tree may bring more: a file was cut off
  // or could not be read.
  bool may_pass() const { return may_pass_; }

  // Whether such a reason may pass.
  static bool MayPass(const absl::Status& reason);

 private:
  std::vector<Problem> listed_;
  std::map<std::string, int64_t> counts_;
  int64_t count_ = 0;
  bool may_pass_ = false;
};

}  // namespace msitd::fill
