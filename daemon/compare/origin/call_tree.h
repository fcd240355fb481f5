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

// Finds the call that each tensor of a rank and token belongs to, the call
// whose code made that call, and tensors that were recorded more than once.
//
// Runs do not record which tensor was computed from which other. They do record
// the order of execution and the names of ops. This class derives from these
// which calls are nested in each other. Its users then assume that the code of
// a call can use each tensor that the call received or that a nested call has
// returned. This needs no graph of the model and works for any code. It cannot
// show which of these tensors the code has used.
//
// Events are the golden tensors in execution order. Event i is the golden
// tensor of pair i. Tensors that only the target run has are not events. The
// forward and the backward pass of an op are different calls: inputs, weights
// and outputs belong to the first, gradients to the second.
//
// Call A is inside call B if B received its inputs before A and returned after
// A. If not all of this was recorded, names decide: a call of `a.b` is inside a
// call of `a` unless the recorded tensors contradict this. The innermost call
// around a call is its parent. A call is a part of its parent.
//
// Immutable. Takes time and memory in proportion to the number of tensors.
class CallTree {
 public:
  static constexpr int32_t kNone = -1;

  // The role of a tensor in its call. In a backward pass, `grad_output` is an
  // input, and `grad_input` and `grad_weight` are outputs. States count as
  // weights.
  enum class Role : uint8_t { kOther, kInput, kOutput, kWeight };

  struct Call {
    std::string_view op;
    int32_t number = 0;
    bool is_backward = false;
    bool has_input = false;
    bool has_output = false;
    // True if both runs made this call.
    bool is_matched = false;
    bool has_parts = false;
    bool has_matched_parts = false;
    // True if the target run calls none of the parts here, although both runs
    // call the ops of all parts elsewhere. The target run then lacks these
    // calls. Otherwise, they may only have other names there.
    bool has_lone_parts = false;
    int32_t parent = kNone;
    // The first and the last event, without weights; kNone if there are only
    // weights.
    int32_t first = kNone;
    int32_t last = kNone;
  };

  struct Event {
    int32_t call = 0;
    Role role = Role::kOther;
    // The last earlier event with the same golden and the same target bytes;
    // kNone if there is none.
    int32_t same = kNone;
  };

  // `pairs` must outlive this object.
  explicit CallTree(const std::vector<TensorPair>& pairs);

  const std::vector<Call>& calls() const { return calls_; }
  const Event& event(size_t index) const { return events_[index]; }
  size_t event_count() const { return events_.size(); }
  // Returns the call that began first; kNone if there are no calls. This is the
  // model itself if its call was recorded.
  int32_t first_call() const { return first_call_; }
  // Returns whether the golden run recorded any input.
  bool has_inputs() const { return has_inputs_; }

  // Returns whether `call` is `ancestor` or inside it. Every call is inside
  // kNone.
  bool IsWithin(int32_t call, int32_t ancestor) const;
  // Returns the last part of `scope` that both runs call and that ended before
  // `event`; kNone if there is none.
  int32_t LastPartBefore(int32_t scope, int32_t event) const;
  // Returns whether `event` is an input that only the golden run passes to a
  // call that both runs make.
  bool IsLoneInput(size_t event) const;
  // Return the inputs that only one run passes to `call`, such as `attn_mask`;
  // at most a few.
  std::vector<std::string> LoneGoldenInputs(int32_t call) const;
  std::vector<std::string> LoneTargetInputs(int32_t call) const;
  // Return the ops that only one run calls in `scope` between `after`, which
  // can be kNone, and `event`; at most a few.
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
  // The calls of an op in execution order, by OpKey.
  std::unordered_map<std::string, std::vector<int32_t>> calls_by_op_;
};

}  // namespace msitd::compare
