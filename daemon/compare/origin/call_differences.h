// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "daemon/calls/call_nesting.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/origin/call_tree.h"

namespace msitd::compare {

// Finds the ops that the code of a call does not call equally often in both
// runs.
//
// Tensors without a counterpart do not prove that their call is missing in the
// other run: the call may have returned another number of tensors, or be paired
// with another one. The calls of each run are therefore nested and counted
// without regard to their pairs. A pair only shows which target op is which
// golden op. The code of a call includes calls inside ops that the other run
// lacks, such as a wrapper.
//
// Immutable. Construction takes O(n log n) for n tensors.
class CallDifferences {
 public:
  // The arguments must outlive this object.
  CallDifferences(const CallTree& tree, const std::vector<TensorPair>& pairs);

  // Returns notes on the code of the golden call `scope` between its part
  // `after` and the golden event `event`, which both can be kNone except the
  // last one:
  //
  //   only golden calls A, B
  //   only target calls C
  //   golden makes more calls of D (3, target 2)
  //   target makes more calls of E (2, golden 1), F (5, golden 2)
  //
  // The numbers are those of all of the code of `scope`. An op is named only if
  // these differ and so do the calls in between. `may_lack_records`: calls may
  // be missing in a record, so no numbers are stated.
  std::vector<std::string> NotesOn(int32_t scope, int32_t after, int32_t event,
                                   bool may_lack_records) const;

 private:
  static constexpr int32_t kNone = CallTree::kNone;

  // The calls of an op in some code.
  struct OpCalls {
    int golden = 0;
    int target = 0;
    // Some of them have no counterpart.
    bool has_lone_golden = false;
    bool has_lone_target = false;
  };
  // By op, in the order of the names.
  using OpCallsByName = std::map<std::string_view, OpCalls>;
  // The call whose code makes a call, the op, and whether it is a backward
  // pass.
  using Place = std::tuple<int32_t, std::string_view, bool>;

  void NestTarget();
  void NameTarget();
  void CountCalls();
  int32_t GoldenHome(int32_t call) const;
  int32_t TargetHome(int32_t call) const;
  // Returns the target call of a golden call, which has the same name if no
  // tensors of them are paired; kNone if there is none.
  int32_t TargetOf(int32_t golden) const;
  bool IsLoneGolden(int32_t call) const;
  // Returns when the target run ended a golden call.
  uint64_t TargetEndOf(int32_t call) const;
  int CountOf(const std::map<Place, int>& counts, int32_t home,
              std::string_view op, bool is_backward) const;
  void AddGolden(int32_t scope, int32_t after, int32_t event,
                 OpCallsByName& between) const;
  void AddTarget(int32_t scope, int32_t after, int32_t event,
                 OpCallsByName& between) const;

  const CallTree& tree_;
  const std::vector<TensorPair>& pairs_;
  CallNesting target_;
  // When each target call began, ascending.
  std::vector<uint64_t> begun_;
  // For each target call, the golden call that it is paired with, or kNone, and
  // the name of its op in the golden run.
  std::vector<int32_t> golden_of_;
  std::vector<std::string_view> names_;
  std::vector<int32_t> target_of_;  // By golden call.
  // By number of the call, op in the golden run, and whether it is backward.
  std::map<Place, int32_t> target_by_name_;
  std::set<std::string_view> golden_ops_;
  std::set<std::string_view> target_ops_;
  std::map<Place, int> golden_counts_;
  std::map<Place, int> target_counts_;
};

}  // namespace msitd::compare
