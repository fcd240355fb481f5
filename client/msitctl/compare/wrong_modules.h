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

// Finds the modules that are wrong by themselves: results of theirs fail
// against a run whose inputs they were given. Only the first token that has a
// failing result counts, since in a training the weights differ behind it.
// Thread-compatible.
class WrongModules {
 public:
  struct Module {
    std::string op;
    int64_t result_count = 0;  // Failing ones, of all tokens.
    int64_t token = 0;         // Of the first of them.
    int32_t call = 0;
    std::string reason;
  };

  // Takes the rows of inputs and results, in any order.
  void See(const v1::ComparisonRow& row);

  // The innermost, in the order of their calls: what holds a module that is
  // wrong differs as well.
  std::vector<Module> Innermost() const;

  // Innermost modules whose results fail, but that had other inputs than the
  // run, or whose inputs are not known to be those: nobody can tell.
  std::vector<Module> Undecided() const;

  // Results that were compared, those that only one of the runs has, and those,
  // or whole groups of them, that could not be compared.
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
    std::map<Call, Failure> failures;  // The first one of each call.
    std::set<Call> strange;            // Had inputs that are not those.
  };

  std::vector<Module> Find(bool is_strange) const;

  // None behind the first that has a failure: only the last one may have any.
  std::map<int64_t, Token> tokens_;
  std::map<std::string, int64_t> failure_counts_;
  int64_t compared_count_ = 0;
  int64_t unmatched_count_ = 0;
  int64_t skipped_count_ = 0;
};

}  // namespace msitd::msitctl
