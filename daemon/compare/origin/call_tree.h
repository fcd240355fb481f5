// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/calls/call_nesting.h"
#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Adds to the nesting of calls (CallNesting) what only a comparison knows:
// which calls both runs make, and tensors that were recorded more than once.
//
// Events are the golden tensors in execution order. Event i is the golden
// tensor of pair i. Tensors that only the target run has are not events.
//
// Immutable. Takes time and memory in proportion to the number of tensors.
class CallTree {
 public:
  static constexpr int32_t kNone = CallNesting::kNone;
  using Role = CallNesting::Role;

  struct Call : CallNesting::Call {
    // True if both runs made this call.
    bool is_matched = false;
    bool has_parts = false;
    bool has_matched_parts = false;
    // True if the target run calls none of the parts here, although both runs
    // call the ops of all parts elsewhere. The target run then lacks these
    // calls. Otherwise, they may only have other names there.
    bool has_lone_parts = false;
    // For the backward of a call: that call, whose tensors the derivative
    // depends on. kNone if it was not recorded, and for all other calls.
    int32_t forward = kNone;
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
  int32_t first_call() const { return nesting_.first_call(); }
  // Returns whether the golden run recorded any input.
  bool has_inputs() const { return nesting_.has_inputs(); }

  // Returns whether `call` is `ancestor` or inside it. Every call is inside
  // kNone.
  bool IsWithin(int32_t call, int32_t ancestor) const {
    return nesting_.IsWithin(call, ancestor);
  }
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

 private:
  void AddEvents();
  void FindParts();
  void FindSame();

  const std::vector<TensorPair>& pairs_;
  std::vector<Event> events_;
  std::vector<Call> calls_;
  CallNesting nesting_;
};

}  // namespace msitd::compare
