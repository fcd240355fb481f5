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

// The result of a matcher; see msitd/v1/mapping.proto.
namespace msitd::match {

// A tensor of a run or, without io, all tensors of an op.
struct Reference {
  std::string op;
  Io io = Io::kUnspecified;
  std::string index = {};
  std::optional<int32_t> call = {};

  friend bool operator==(const Reference&, const Reference&) = default;
};

// Two paired tensors, or one without a counterpart.
struct Line {
  std::optional<Reference> target;
  std::optional<Reference> golden;
  std::string reason;
  // The number of pairs of recorded tensors that it represents.
  size_t pair_count = 0;
  // The view of each tensor, as in MappingLine; empty for the tensor itself.
  std::string target_view = {};
  std::string golden_view = {};
};

// Why a tensor has no counterpart.
struct LeftReason {
  std::string_view text;
  // True only if no recording could have its counterpart, or if the rules do
  // not search for one. Such tensors have a line with only one side and are
  // skipped. The others have no line and are unmatched.
  bool is_expected = false;
};

// Tensors of one run without a counterpart, for the same reason.
struct LeftTensors {
  bool is_golden = false;
  // True if this is expected. The others are unmatched.
  bool is_expected = true;
  std::string reason;
  size_t count = 0;
  // Records of these tensors in all ranks, tokens and calls. A tensor of which
  // only one call is left counts as 1.
  size_t record_count = 0;
  // The ops of the first tensors, at most kExamplesMax.
  std::vector<std::string> examples;
};

// Returns ` (48 records)`, to be appended to the number of tensors; empty if
// each of them was recorded once.
std::string RecordsText(size_t tensor_count, size_t record_count);

// A module of a torch model, and the corresponding rope operation of the
// library.
struct RopeOps {
  std::string torch;
  std::string atb;
};

// How the shards of one run form tensors; see v1::Layout.
struct ShardLayout {
  enum class Kind : uint8_t { kConcat, kSum, kReplicated, kFit };

  std::string op_pattern;
  Io io = Io::kUnspecified;          // Unspecified for all.
  std::optional<std::string> index;  // Absent for all.
  Kind kind = Kind::kReplicated;
  int dim = 0;
  std::vector<int> sections = {};
  // The number of ranks that share a tensor; 0 for all.
  int group_size = 0;
  bool unless_placed = false;
};

// How the rows of the paired activations relate.
enum class RowRelation : uint8_t {
  kEqual,     // Equal shapes.
  kSqueezed,  // Equal shapes without dimensions of length 1.
  kDifferent  // Other numbers of rows, as of other batches.
};

struct Mapping {
  // In the order of the target ops, then of the golden ops.
  std::vector<Line> lines;
  // Pairs of tensors. A tensor of an op counts once for all ranks, tokens and
  // calls.
  size_t pair_count = 0;
  std::vector<LeftTensors> left;
  // Further information for the user, one sentence each.
  std::vector<std::string> notes;
  // Tensors without a line are paired by name.
  bool pairs_others = false;
  // The layouts that the pairs rely on, for runs of several ranks.
  std::vector<ShardLayout> golden_layouts;
  std::vector<ShardLayout> target_layouts;
  RowRelation rows = RowRelation::kEqual;
  // For torch compared with the library: operations that use a part of a table,
  // which a line cannot express.
  std::vector<RopeOps> ropes;
};

// Returns `line` as a line of an attachment, with a line feed.
std::string ToText(const Line& line);

// A tensor, by its indexes in RunFacts.
struct Slot {
  size_t op = 0;
  size_t tensor = 0;
};

// Collects pairs and unpaired tensors. Thread-compatible. The facts must
// outlive it.
class MappingBuilder {
 public:
  MappingBuilder(const RunFacts& golden, const RunFacts& target);

  const RunFacts& golden() const { return golden_; }
  const RunFacts& target() const { return target_; }

  // The calls of the two tensors that are paired; nothing for all calls.
  struct Calls {
    std::optional<int32_t> golden;
    std::optional<int32_t> target;
  };

  // Pairs two tensors. A target tensor has at most one golden tensor: if it
  // already has one, returns false and does nothing.
  bool Pair(Slot golden, Slot target, std::string_view reason,
            Calls calls = {});

  // Pairs one call of a target tensor with one of a golden tensor. Pair
  // determines the other calls. If the call of the target is already paired,
  // returns false and does nothing.
  bool PairCall(Slot golden, int32_t golden_call, Slot target,
                int32_t target_call, std::string_view reason);
  // The same with a golden tensor that the run should have but does not.
  bool PairCallWithAbsent(Reference golden, Slot target, int32_t target_call,
                          std::string_view reason);

  // Pairs a target tensor with one that the golden run should have but does
  // not. Does nothing if the target tensor is already paired.
  void PairWithAbsent(Slot target, Reference golden, std::string_view reason);

  // Sets the reason why a tensor has no counterpart. The first of several
  // reasons is used, and paired tensors need none. Tensors are counted by
  // `reason`; `detail` is appended to it in the line.
  void LeaveGolden(Slot golden, const LeftReason& reason,
                   std::string_view detail = {});
  void LeaveTarget(Slot target, const LeftReason& reason,
                   std::string_view detail = {});
  // The same for all tensors of an op.
  void LeaveGoldenOp(size_t op, const LeftReason& reason,
                     std::string_view detail = {});
  void LeaveTargetOp(size_t op, const LeftReason& reason,
                     std::string_view detail = {});

  // The views of a pair of tensors; empty for the tensors themselves.
  struct Views {
    std::string golden;
    std::string target;
  };

  // Pairs two tensors that are seen as something else. A target tensor can be
  // in several such pairs, each of which needs a view. Returns false, and does
  // nothing, if Pair has paired the target tensor.
  bool PairViews(Slot golden, Slot target, std::string_view reason,
                 Views views);

  bool IsTargetTaken(Slot target) const;
  bool IsGoldenTaken(Slot golden) const;

  void Note(std::string text);

  // Returns the mapping. Tensors that were not mentioned are left for these
  // reasons. Call it once. Returns RESOURCE_EXHAUSTED for more than
  // kMappingPairsMax lines.
  absl::StatusOr<Mapping> Finish(const LeftReason& golden_reason,
                                 const LeftReason& target_reason);

 private:
  struct Reason {
    std::string text;
    std::string detail;
  };
  struct State {
    // kLeft is expected, kMissing is not.
    // kViewed has one or more pairs with views.
    enum class Kind : uint8_t {
      kOpen,
      kPaired,
      kViewed,
      kAbsent,
      kLeft,
      kMissing
    };

    Kind kind = Kind::kOpen;
    uint32_t reason = 0;
    // For a paired target.
    Slot golden = {};
    Calls calls = {};
    // True if some of its calls are paired, whichever kind it is.
    bool has_calls = false;
  };
  // One call of a target tensor.
  struct CallPair {
    // The golden tensor; nothing if it is absent.
    std::optional<Slot> golden;
    Reference golden_reference;
    uint32_t reason = 0;
  };
  // A pair of a target tensor with a view.
  struct ViewPair {
    Slot golden;
    uint32_t reason = 0;
    Views views;
  };
  // By tensor of the op.
  using CallPairs = std::map<size_t, CallPair>;
  // By op, then by tensor.
  using States = std::vector<std::vector<State>>;

  uint32_t NumberOf(std::string_view reason, std::string_view detail);
  void Leave(State& state, const LeftReason& reason, std::string_view detail);
  std::string TextOf(uint32_t reason) const;
  // Closes the open tensors, and counts those without a counterpart.
  void Count(const RunFacts& run, bool is_golden, const LeftReason& reason,
             States& states);
  void AddTarget(size_t op);
  void AddCalls(size_t op);
  void AddViews(size_t op, size_t tensor);
  // Returns true if all tensors of the op are paired with all tensors of
  // another op, call by call.
  bool IsWholeCall(size_t op, const CallPairs& pairs) const;
  void AddGolden(size_t op);
  // Returns true if all tensors of the op are paired with all tensors of
  // another op, by io and index.
  bool IsWholePair(size_t op) const;
  // Returns true if all tensors of the op are left for the same reason.
  static bool IsWholeLeft(const std::vector<State>& states);
  static Reference ToReference(const RunFacts& run, Slot slot);

  const RunFacts& golden_;
  const RunFacts& target_;
  States golden_states_;
  States target_states_;
  std::vector<Reason> reasons_;
  std::map<std::pair<std::string, std::string>, uint32_t> reason_numbers_;
  // Absent golden tensors, by op and tensor of the target.
  std::map<std::pair<size_t, size_t>, Reference> absent_;
  // By op and tensor of the target.
  std::map<std::pair<size_t, size_t>, std::vector<ViewPair>> view_pairs_;
  // By op and call of the target.
  std::map<std::pair<size_t, int32_t>, CallPairs> call_pairs_;
  Mapping mapping_;
};

}  // namespace msitd::match
