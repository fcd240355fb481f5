// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "msitd/v1/comparison_service.pb.h"

namespace msitd::compare {

// Finds out which op made a difference and which passed it on, from the rows of
// one rank and token in the order of execution. Inputs of an op are expected
// before its outputs, and the parts of a module before its output, as hooks
// record them; an input that comes later is not taken into account.
//
// Inputs and weights belong to the outputs of the forward pass, grad_outputs to
// what the backward pass gives. Thread-compatible. Holds an entry for every op
// and call of a group.
class OriginFinder {
 public:
  void StartGroup();

  // Takes note of `row`, which has its verdict, and returns its origin.
  v1::Origin Find(const v1::ComparisonRow& row);

 private:
  struct Inputs {
    size_t passed = 0;
    size_t failed = 0;
    size_t unknown = 0;
  };

  static std::string KeyOf(const v1::ComparisonRow& row, bool backward);
  void NoteFailure(const std::string& op);

  std::unordered_map<std::string, Inputs> inputs_;
  // Every op of which a part has failed.
  std::unordered_set<std::string> failed_inside_;
};

}  // namespace msitd::compare
