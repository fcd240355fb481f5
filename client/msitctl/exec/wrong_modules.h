// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// Finds modules that are themselves wrong: their results fail although they
// were given the inputs of the run. Only the first token with a failing result
// is used, because in training the weights differ after it. Thread-compatible.
class WrongModules {
 public:
  struct Module {
    std::string op;
    int64_t result_count = 0;  // Failing results in all tokens.
    int64_t token = 0;         // The token of the first of them.
    int32_t call = 0;
    std::string reason;
  };

  // Adds the rows of inputs and results, in any order.
  void See(const v1::ComparisonRow& row);

  // Returns the innermost wrong modules in the order of their calls, because a
  // module that contains a wrong one differs as well.
  std::vector<Module> Innermost() const;

  // Returns innermost modules whose results fail, but whose inputs differ from
  // the run or are not known to be the same. No conclusion is possible for
  // these.
  std::vector<Module> Undecided() const;

  // Numbers of results that were compared, of results that only one of the runs
  // has, and of results, or whole groups of them, that could not be compared.
  int64_t compared_count() const { return compared_count_; }
  int64_t unmatched_count() const { return unmatched_count_; }
  int64_t skipped_count() const { return skipped_count_; }

 private:
  using Call = std::tuple<std::string, int64_t, int32_t>;  // Op, rank, call.

  struct Failure {
    int64_t sequence = 0;
    std::string reason;
  };
  struct Token {
    std::map<Call, Failure> failures;  // The first failure of each call.
    std::set<Call> strange;            // Calls with other inputs.
  };

  std::vector<Module> Find(bool is_strange) const;

  // No token after the first one with a failure is kept, so only the last one
  // may have failures.
  std::map<int64_t, Token> tokens_;
  std::map<std::string, int64_t> failure_counts_;
  int64_t compared_count_ = 0;
  int64_t unmatched_count_ = 0;
  int64_t skipped_count_ = 0;
};

}  // namespace msitd::msitctl
