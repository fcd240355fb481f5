// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/match/facts.h"
#include "protos/base/tensor_key.h"

// What a matcher finds: see msitd/v1/mapping.proto.
namespace msitd::match {

// A tensor of a run, or, without io, all of an op.
struct Reference {
  std::string op;
  Io io = Io::kUnspecified;
  std::string index = {};
  std::optional<int32_t> call = {};

  friend bool operator==(const Reference&, const Reference&) = default;
};

// Two that belong together, or one that belongs to none.
struct Line {
  std::optional<Reference> target;
  std::optional<Reference> golden;
  std::string reason;
  // How many pairs of recorded tensors it joins.
  size_t pair_count = 0;
};

// Why a tensor belongs to none.
struct LeftReason {
  std::string_view text;
  // True only if no recording could have its counterpart, or if the rules do
  // not look for one. Such tensors have a line with one side alone and are
  // skipped. The others have no line and are unmatched.
  bool is_expected = false;
};

// Tensors of one run that belong to none, for one reason.
struct LeftTensors {
  bool is_golden = false;
  // True if that is as it should be. The others are unmatched.
  bool is_expected = true;
  std::string reason;
  size_t count = 0;
  // Of these tensors, in all ranks, tokens and calls. Of one of which a single
  // call is left, 1.
  size_t record_count = 0;
  // The ops of the first, kExamplesMax at most.
  std::vector<std::string> examples;
};

// Returns ` (48 records)`, to stand behind so many tensors; nothing if each of
// them was recorded once.
std::string RecordsText(size_t tensor_count, size_t record_count);

// A module of a torch model, and the rope operation of the library that is its
// counterpart.
struct RopeOps {
  std::string torch;
  std::string atb;
};

struct Mapping {
  // In the order of the target ops, then of the golden ones.
  std::vector<Line> lines;
  // Of tensors: one of an op counts once, whatever its ranks, tokens and calls.
  size_t pair_count = 0;
  std::vector<LeftTensors> left;
  // What else people should know, a sentence each.
  std::vector<std::string> notes;
  // What has no line belongs together by its name.
  bool pairs_others = false;
  // Of torch beside the library: what takes a part of a table, which no line
  // can say.
  std::vector<RopeOps> ropes;
};

// Returns `line` as a line of an attachment, with a line feed.
std::string ToText(const Line& line);

// A tensor, by its place in RunFacts.
struct Slot {
  size_t op = 0;
  size_t tensor = 0;
};

// Collects pairs, and what is left. Thread-compatible; the facts must outlive
// it.
class MappingBuilder {
 public:
  MappingBuilder(const RunFacts& golden, const RunFacts& target);

  const RunFacts& golden() const { return golden_; }
  const RunFacts& target() const { return target_; }

  // The calls of the two that belong together; nothing for all.
  struct Calls {
    std::optional<int32_t> golden;
    std::optional<int32_t> target;
  };

  // Joins two tensors. A target tensor belongs to one golden tensor: returns
  // false, and does nothing, if it has one.
  bool Pair(Slot golden, Slot target, std::string_view reason,
            Calls calls = {});

  // Joins one call of a target tensor to one of a golden tensor; Pair says what
  // of the other calls is. Returns false, and does nothing, if that call of the
  // target belongs to one.
  bool PairCall(Slot golden, int32_t golden_call, Slot target,
                int32_t target_call, std::string_view reason);
  // The same with a golden tensor that the run should have, but has not.
  bool PairCallWithAbsent(Reference golden, Slot target, int32_t target_call,
                          std::string_view reason);

  // Joins a target tensor to one that the golden run should have, but has not.
  // Does nothing if it belongs to one.
  void PairWithAbsent(Slot target, Reference golden, std::string_view reason);

  // Says why a tensor belongs to none. Of several reasons the first counts;
  // none does for what is in a pair. Tensors are counted by `reason`; `detail`
  // is behind it in the line.
  void LeaveGolden(Slot golden, const LeftReason& reason,
                   std::string_view detail = {});
  void LeaveTarget(Slot target, const LeftReason& reason,
                   std::string_view detail = {});
  // The same for all tensors of an op.
  void LeaveGoldenOp(size_t op, const LeftReason& reason,
                     std::string_view detail = {});
  void LeaveTargetOp(size_t op, const LeftReason& reason,
                     std::string_view detail = {});

  bool IsTargetTaken(Slot target) const;
  bool IsGoldenTaken(Slot golden) const;

  void Note(std::string text);

  // Returns the mapping; what nobody spoke of is left for these reasons. Call
  // it once. Errors: RESOURCE_EXHAUSTED for more than kMappingPairsMax lines.
  absl::StatusOr<Mapping> Finish(const LeftReason& golden_reason,
                                 const LeftReason& target_reason);

 private:
  struct Reason {
    std::string text;
    std::string detail;
  };
  struct State {
    // kLeft is expected, kMissing is not.
    enum class Kind : uint8_t { kOpen, kPaired, kAbsent, kLeft, kMissing };

    Kind kind = Kind::kOpen;
    uint32_t reason = 0;
    // Of a target in a pair.
    Slot golden = {};
    Calls calls = {};
    // True if some calls of it are in a pair, whatever its kind.
    bool has_calls = false;
  };
  // One call of a target tensor.
  struct CallPair {
    // Where it is; nothing if it is not there.
    std::optional<Slot> golden;
    Reference golden_reference;
    uint32_t reason = 0;
  };
  // By tensor of the op.
  using CallPairs = std::map<size_t, CallPair>;
  // By op, then by tensor.
  using States = std::vector<std::vector<State>>;

  uint32_t NumberOf(std::string_view reason, std::string_view detail);
  void Leave(State& state, const LeftReason& reason, std::string_view detail);
  std::string TextOf(uint32_t reason) const;
  // Closes the open ones, and counts what is left.
  void Count(const RunFacts& run, bool is_golden, const LeftReason& reason,
             States& states);
  void AddTarget(size_t op);
  void AddCalls(size_t op);
  // True if all tensors of the op belong to all of another, call by call.
  bool IsWholeCall(size_t op, const CallPairs& pairs) const;
  void AddGolden(size_t op);
  // True if all of the op belongs to all of another, by io and index.
  bool IsWholePair(size_t op) const;
  // True if all of the op is left for one reason.
  static bool IsWholeLeft(const std::vector<State>& states);
  static Reference ToReference(const RunFacts& run, Slot slot);

  const RunFacts& golden_;
  const RunFacts& target_;
  States golden_states_;
  States target_states_;
  std::vector<Reason> reasons_;
  std::map<std::pair<std::string, std::string>, uint32_t> reason_numbers_;
  // Goldens that are not there, by op and tensor of the target.
  std::map<std::pair<size_t, size_t>, Reference> absent_;
  // By op and call of the target.
  std::map<std::pair<size_t, int32_t>, CallPairs> call_pairs_;
  Mapping mapping_;
};

}  // namespace msitd::match
