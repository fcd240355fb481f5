// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/compare/job/choice_reader.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/work_observer.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::compare {

// Maximum size of the logits that are read to explain one choice, of both runs.
inline constexpr uint64_t kLogitsBytesMax = uint64_t{256} << 20;

// Maximum number of sequences whose logits are kept, each with two descriptors.
// Choices of further ones are not explained.
inline constexpr size_t kSequencesMax = 4096;

// Explains why two runs chose different tokens: whether their logits agreed
// until then, and by how much each run preferred its token.
//
// Logits are not marked in a run. The widest floating-point result of a token
// is taken for them, since a vocabulary is larger than any hidden size of the
// same model; a token that exceeds its width shows that it is something else.
//
// Thread-compatible.
class TokenChoices {
 public:
  // Considers a compared pair of `row`, which must have its verdict.
  void Note(const TensorPair& pair, const v1::ComparisonRow& row);
  // Keeps the logits of the group that the noted pairs belong to. Groups of a
  // rank are passed in the order of their tokens.
  void EndGroup(const TensorGroup& group);

  // Returns a text for a pair of token ids that differ as inputs at a token,
  // such as `golden chose 186 over 403 by 0.01, ...`. Returns an empty text if
  // the logits that the tokens were chosen by are not known.
  //
  // Errors: those of ElementReader.
  absl::StatusOr<std::string> Explain(const TensorPair& tokens,
                                      const v1::ComparisonRow& row,
                                      const PairRuns& runs,
                                      WorkObserver& observer) const;

 private:
  struct Logits {
    int64_t token = -1;
    LogicalTensor golden;
    LogicalTensor target;
    bool agree = false;  // Their row passes.
  };
  // The widest pair of the current group so far; null if there is none.
  struct Widest {
    const LogicalTensor* golden = nullptr;
    const LogicalTensor* target = nullptr;
    bool agree = false;
  };

  Widest widest_;
  // The last ones, by rank and request. The request is empty if rows are not
  // compared by request.
  std::map<std::pair<int32_t, std::string>, Logits> sequences_;
};

}  // namespace msitd::compare
