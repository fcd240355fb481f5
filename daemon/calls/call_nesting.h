// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "protos/base/tensor_key.h"

namespace msitd {

// Finds the call that each tensor of a rank and token belongs to, and the call
// whose code made that call.
//
// Runs do not record which tensor was computed from which other. They do record
// the order of execution and the names of ops. This class derives from these
// which calls are nested in each other. Its users then assume that the code of
// a call can use each tensor that the call received or that a nested call has
// returned. This needs no graph of the model and works for any code. It cannot
// show which of these tensors the code has used.
//
// Events are tensors in execution order. The forward and the backward pass of
// an op are different calls: inputs, weights and outputs belong to the first,
// gradients to the second.
//
// Call A is inside call B if B received its inputs before A and returned after
// A. If not all of this was recorded, names decide: a call of `a.b` is inside a
// call of `a` unless the recorded tensors contradict this. The innermost call
// around a call is its parent. A call is a part of its parent.
//
// Thread-compatible. Takes time and memory in proportion to the number of
// tensors. The names of at most 64 levels around a call are looked up.
class CallNesting {
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
    int32_t parent = kNone;
    // The first and the last event, without weights; kNone if there are only
    // weights.
    int32_t first = kNone;
    int32_t last = kNone;
  };

  static Role RoleOf(Io io);
  static bool IsBackward(Io io);

  // Adds the next event and returns its call. `op` must outlive this object.
  int32_t Add(std::string_view op, int32_t call, Io io);

  // Sets the parents of all calls. Must be called once, after the last Add.
  void FindParents() {
    FindParents([] { return false; });
  }
  // The same. `is_stopped` is called regularly; once it returns true, the
  // remaining calls get no parents.
  void FindParents(absl::FunctionRef<bool()> is_stopped);

  // In the order of their first events, including weights.
  const std::vector<Call>& calls() const { return calls_; }
  // Returns the call that began first; kNone if there are no calls. This is the
  // model itself if its call was recorded.
  int32_t first_call() const { return first_call_; }
  // Returns whether any input was added.
  bool has_inputs() const { return has_inputs_; }

  // Returns whether `call` is `ancestor` or inside it. Every call is inside
  // kNone.
  bool IsWithin(int32_t call, int32_t ancestor) const;

 private:
  int32_t NumberOf(std::string_view op);
  int32_t ParentByName(int32_t call) const;
  int32_t ParentByInterval(const std::vector<int32_t>& open,
                           const Call& call) const;
  static bool Contains(const Call& outer, const Call& inner);
  const std::vector<int32_t>& CallsOf(int32_t op, bool is_backward) const;

  int32_t event_count_ = 0;
  bool has_inputs_ = false;
  int32_t first_call_ = kNone;
  std::vector<Call> calls_;
  std::vector<int32_t> op_of_call_;
  std::unordered_map<std::string_view, int32_t> ops_;
  // Calls by op, pass and number.
  std::unordered_map<uint64_t, int32_t> call_of_key_;
  // The calls of an op and a pass in execution order, by CallsOf.
  std::vector<std::vector<int32_t>> calls_by_op_;
};

}  // namespace msitd
