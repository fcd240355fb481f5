// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Which tensors of a rank and token belong to which call of an op, which call
// was made by the code of which other, and which tensors are the same one.
//
// Events are the golden tensors in the order of execution: event i is that of
// pair i. What only the target has is no event. An op's forward and backward
// pass are different calls: inputs, weights and outputs belong to the first,
// gradients to the second.
//
// Call A is inside call B if B was given its inputs before A and returned after
// A, or by its name: `a.b` is a part of the call of `a` around it. Of several
// calls around it, the innermost is the parent.
//
// Immutable. Takes time and memory in proportion to the number of tensors.
class CallTree {
 public:
  static constexpr int32_t kNone = -1;

  enum class Role : uint8_t { kOther, kInput, kOutput, kWeight };

  struct Call {
    std::string_view op;
    int32_t number = 0;
    bool is_backward = false;
    bool has_input = false;
    bool has_output = false;
    // Both runs made it.
    bool is_matched = false;
    bool has_parts = false;
    bool has_matched_parts = false;
    // The target run does not make any of the parts here, but both runs call
    // their ops elsewhere, so they have no other names there.
    bool has_lone_parts = false;
    int32_t parent = kNone;
    // First and last event, weights left out; kNone if there are only weights.
    int32_t first = kNone;
    int32_t last = kNone;
  };

  struct Event {
    int32_t call = 0;
    Role role = Role::kOther;
    // The last event before this one with the same bytes on both sides, or
    // kNone.
    int32_t same = kNone;
  };

  // The pairs must outlive it.
  explicit CallTree(const std::vector<TensorPair>& pairs);

  const std::vector<Call>& calls() const { return calls_; }
  const Event& event(size_t index) const { return events_[index]; }
  size_t event_count() const { return events_.size(); }
  // The call that began first, which is the model itself if that is on record;
  // kNone if there is none.
  int32_t first_call() const { return first_call_; }
  // False if the run has no inputs on record at all.
  bool has_inputs() const { return has_inputs_; }

  // True if `call` is `ancestor` or inside of it; everything is inside kNone.
  bool IsWithin(int32_t call, int32_t ancestor) const;
  // The part of `scope` that has ended last before `event`; kNone if there is
  // none that both runs called.
  int32_t LastPartBefore(int32_t scope, int32_t event) const;
  // True if `event` is an input that only the golden run gives to a call that
  // both runs make.
  bool IsLoneInput(size_t event) const;
  // What only one run gives to `call`, such as `attn_mask`; at most a few.
  std::vector<std::string> LoneGoldenInputs(int32_t call) const;
  std::vector<std::string> LoneTargetInputs(int32_t call) const;
  // Ops that only one run called in `scope`, between `after`, which may be
  // kNone, and `event`; at most a few.
  std::vector<std::string> OnlyGolden(int32_t scope, int32_t after,
                                      int32_t event) const;
  std::vector<std::string> OnlyTarget(int32_t scope, int32_t after,
                                      int32_t event) const;

 private:
  void AddEvents();
  void FindParents();
  int32_t ParentByName(const Call& call) const;
  bool Contains(const Call& outer, const Call& inner) const;
  void FindSame();

  const std::vector<TensorPair>& pairs_;
  std::vector<Event> events_;
  std::vector<Call> calls_;
  bool has_inputs_ = false;
  int32_t first_call_ = kNone;
  // Calls of an op in the order of execution, by the op and the direction.
  std::unordered_map<std::string, std::vector<int32_t>> calls_by_op_;
};

}  // namespace msitd::compare
