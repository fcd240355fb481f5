// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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

// Explains why two runs chose different tokens: whether their logits agreed
// until then, and by how much each run preferred its token.
//
// Logits are not marked in a run. The widest floating-point result of a token
// is taken for them, since a vocabulary is larger than any hidden size of the
// same model; a token that exceeds its width shows that it is something else.
// The cost is two descriptors for each rank and request.
//
// Thread-compatible.
class TokenChoices {
 public:
  // Considers a compared pair of `row`, which must have its verdict. Pairs of a
  // rank are passed in the order of their tokens.
  void Note(const TensorPair& pair, const v1::ComparisonRow& row);

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
  struct OfSequence {
    std::optional<Logits> before;  // At the token before `last`.
    std::optional<Logits> last;
  };

  // By rank and request; the request is empty if rows are not compared by
  // request.
  std::map<std::pair<int32_t, std::string>, OfSequence> sequences_;
};

}  // namespace msitd::compare
