// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/call_alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "protos/base/dtype.h"

namespace msitd::compare {
namespace {

bool IsOfCall(Io io) {
  return io == Io::kInput || io == Io::kOutput || IsOfBackwardCall(io);
}

// A tensor of a call, with its position in the execution order of its run.
struct Leaf {
  const LogicalTensor* tensor = nullptr;
  size_t position = 0;

  int32_t call() const { return tensor->key.call; }
};

// One call of an op.
struct Call {
  int32_t number = 0;
  std::span<const Leaf> leaves;
  size_t begin = 0;  // Position of the first leaf.
  size_t stretch = 0;
};

// The tensors of an op in one run.
class OpLeaves {
 public:
  void Add(const Leaf& leaf) {
    const std::string& name = leaf.tensor->key.op;
    if (leaves_.empty()) name_ = &name;
    has_several_names_ = has_several_names_ || name != *name_;
    leaves_.push_back(leaf);
  }

  // Puts the leaves in the order of their keys. Called once all are added.
  void Sort() {
    std::sort(leaves_.begin(), leaves_.end(),
              [](const Leaf& a, const Leaf& b) { return Order(a) < Order(b); });
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (i == 0 || leaves_[i].call() != leaves_[i - 1].call()) {
        starts_.push_back(i);
      }
    }
  }

  size_t call_count() const { return starts_.size(); }
  std::span<const Leaf> leaves() const { return leaves_; }

  // True if the numbers of the calls of both runs begin with the same one and
  // have no gaps, and if each run has a single op of this name.
  static bool AreNumbered(const OpLeaves& golden, const OpLeaves& target) {
    return golden.HasNoGaps() && target.HasNoGaps() &&
           golden.leaves_.front().call() == target.leaves_.front().call();
  }

  // The calls in execution order.
  std::vector<Call> Calls() const {
    std::vector<Call> out;
    for (size_t i = 0; i < starts_.size(); ++i) {
      const size_t end =
          i + 1 < starts_.size() ? starts_[i + 1] : leaves_.size();
      const std::span<const Leaf> of_call =
          leaves().subspan(starts_[i], end - starts_[i]);
      Call call{of_call.front().call(), of_call, of_call.front().position};
      for (const Leaf& leaf : of_call) {
        call.begin = std::min(call.begin, leaf.position);
      }
      out.push_back(call);
    }
    std::sort(out.begin(), out.end(),
              [](const Call& a, const Call& b) { return a.begin < b.begin; });
    return out;
  }

 private:
  static std::tuple<int32_t, Io, const std::string&, const std::string&, size_t>
  Order(const Leaf& leaf) {
    const TensorKey& key = leaf.tensor->key;
    return {key.call, key.io, key.index, key.device, leaf.position};
  }

  bool HasNoGaps() const {
    if (leaves_.empty() || has_several_names_) return false;
    const int64_t span =
        int64_t{leaves_.back().call()} - leaves_.front().call() + 1;
    return span == static_cast<int64_t>(call_count());
  }

  const std::string* name_ = nullptr;  // The op of the first leaf.
  bool has_several_names_ = false;
  std::vector<Leaf> leaves_;
  std::vector<size_t> starts_;  // First leaf of each call.
};

// An op in both runs.
struct Op {
  OpLeaves golden;
  OpLeaves target;

  bool has_equal_counts() const {
    return golden.call_count() == target.call_count();
  }
  bool is_to_align() const {
    return !has_equal_counts() && OpLeaves::AreNumbered(golden, target);
  }
};

// Positions of the same tensor in both runs.
struct Landmark {
  size_t golden = 0;
  size_t target = 0;
};

// Adds the tensors that both runs have once.
void AddLandmarks(const Op& op, bool with_device, std::vector<Landmark>& out) {
  const auto key_of = [with_device](const Leaf& leaf) {
    static const std::string kNoDevice;
    const TensorKey& key = leaf.tensor->key;
    return std::tie(key.call, key.io, key.index,
                    with_device ? key.device : kNoDevice);
  };
  const auto golden = op.golden.leaves();
  const auto target = op.target.leaves();
  const auto end_of_key = [&](std::span<const Leaf> leaves, size_t begin) {
    size_t end = begin + 1;
    while (end < leaves.size() && key_of(leaves[end]) == key_of(leaves[begin]))
      ++end;
    return end;
  };
  for (size_t i = 0, j = 0; i < golden.size() && j < target.size();) {
    if (key_of(golden[i]) < key_of(target[j])) {
      ++i;
    } else if (key_of(target[j]) < key_of(golden[i])) {
      ++j;
    } else {
      const size_t golden_end = end_of_key(golden, i);
      const size_t target_end = end_of_key(target, j);
      if (golden_end - i == 1 && target_end - j == 1) {
        out.push_back({golden[i].position, target[j].position});
      }
      i = golden_end;
      j = target_end;
    }
  }
}

// Leaves the longest sequence that ascends in both runs: one of the longest
// increasing subsequences.
void KeepCommonOrder(std::vector<Landmark>& landmarks) {
  std::sort(
      landmarks.begin(), landmarks.end(),
      [](const Landmark& a, const Landmark& b) { return a.golden < b.golden; });
  std::vector<size_t> ends;  // The last landmark of a sequence, by its length.
  std::vector<std::optional<size_t>> previous(landmarks.size());
  for (size_t i = 0; i < landmarks.size(); ++i) {
    const auto at = std::lower_bound(
        ends.begin(), ends.end(), landmarks[i].target,
        [&](size_t end, size_t to) { return landmarks[end].target < to; });
    if (at != ends.begin()) previous[i] = *std::prev(at);
    if (at == ends.end()) {
      ends.push_back(i);
    } else {
      *at = i;
    }
  }
  std::vector<Landmark> kept;
  if (!ends.empty()) {
    for (std::optional<size_t> i = ends.back(); i.has_value();
         i = previous[*i]) {
      kept.push_back(landmarks[*i]);
    }
  }
  std::reverse(kept.begin(), kept.end());
  landmarks = std::move(kept);
}

// Describes calls of either run by numbers that are equal for calls that are
// alike.
class Likenesses {
 public:
  struct Likeness {
    uint32_t inputs = 0;   // Their shapes and kinds of types.
    uint32_t all = 0;      // Those of the outputs as well.
    uint32_t content = 0;  // Types and hashes; 0 if a hash is not known.
  };

  Likeness Of(const Call& call) {
    std::string inputs;
    std::string all;
    std::string content;
    bool is_known = true;
    const bool has_forward = std::any_of(
        call.leaves.begin(), call.leaves.end(), [](const Leaf& leaf) {
          return !IsOfBackwardCall(leaf.tensor->key.io);
        });
    for (const Leaf& leaf : call.leaves) {
      const LogicalTensor& tensor = *leaf.tensor;
      // Checkpoints move gradients to another call of the same kind.
      if (has_forward && IsOfBackwardCall(tensor.key.io)) continue;
      const std::string text = fmt::format(
          "{}{}{}{}{}{}", IoName(tensor.key.io), '\0', tensor.key.index, '\0',
          static_cast<int>(InfoOf(tensor.dtype).kind),
          fmt::join(tensor.shape, ","));
      all += text + '\n';
      if (tensor.key.io == Io::kInput) inputs += text + '\n';
      is_known = is_known && HasHash(tensor) && tensor.hash != ContentHash();
      content += fmt::format("{} {} {}\n", DTypeName(tensor.dtype),
                             tensor.hash.low, tensor.hash.high);
    }
    Likeness out{NumberOf(inputs), NumberOf(all)};
    if (is_known) out.content = NumberOf(all + '\0' + content);
    return out;
  }

 private:
  // Not 0, except for an empty text.
  uint32_t NumberOf(std::string text) {
    if (text.empty()) return 0;
    const auto next = static_cast<uint32_t>(numbers_.size() + 1);
    return numbers_.try_emplace(std::move(text), next).first->second;
  }

  std::unordered_map<std::string, uint32_t> numbers_;
};

using Likeness = Likenesses::Likeness;

// How well two calls fit; 0 if they do not. An alignment has at most 256 calls
// of either run, so no number of lower scores exceeds a higher one.
constexpr uint32_t kSameHashes = 1;
constexpr uint32_t kAlikeInputs = 1 << 9;
constexpr uint32_t kAlike = 1 << 18;

uint32_t ScoreOf(const Likeness& golden, const Likeness& target) {
  if (golden.all != target.all) {
    return golden.inputs != 0 && golden.inputs == target.inputs ? kAlikeInputs
                                                                : 0;
  }
  const bool has_same_hashes =
      golden.content != 0 && golden.content == target.content;
  return kAlike + (has_same_hashes ? kSameHashes : 0);
}

// The calls of an op in one stretch of a run.
using Stretch = std::span<const Call>;

class StretchAligner {
 public:
  // Hands the numbers of the golden and the target call of each pair to `join`.
  template <typename Join>
  void Align(Stretch golden, Stretch target, const Join& join) {
    if (golden.size() == target.size()) {
      JoinInOrder(golden, target, join);
      return;
    }
    if (golden.empty() || target.empty()) return;
    golden_ = LikenessesOf(golden);
    target_ = LikenessesOf(target);
    Limits limits{0, golden.size(), 0, target.size()};
    const auto trim = [&](uint32_t least) {
      Trim(limits, least, [&](size_t i, size_t j) {
        join(golden[i].number, target[j].number);
      });
    };
    if (limits.pair_count() > CallAlignment::kPairsMax)
      trim(kAlike + kSameHashes);
    if (limits.pair_count() > CallAlignment::kPairsMax) trim(kAlike);
    if (limits.pair_count() > CallAlignment::kPairsMax) {
      JoinInOrder(golden.subspan(limits.golden_begin, limits.golden_count()),
                  target.subspan(limits.target_begin, limits.target_count()),
                  join);
      return;
    }
    FindBest(limits, [&](size_t i, size_t j) {
      join(golden[i].number, target[j].number);
    });
  }

 private:
  struct Limits {
    size_t golden_begin = 0;
    size_t golden_end = 0;
    size_t target_begin = 0;
    size_t target_end = 0;

    size_t golden_count() const { return golden_end - golden_begin; }
    size_t target_count() const { return target_end - target_begin; }
    size_t pair_count() const { return golden_count() * target_count(); }
  };

  std::vector<Likeness> LikenessesOf(Stretch calls) {
    std::vector<Likeness> out;
    out.reserve(calls.size());
    for (const Call& call : calls) out.push_back(likenesses_.Of(call));
    return out;
  }

  template <typename Join>
  static void JoinInOrder(Stretch golden, Stretch target, const Join& join) {
    const size_t count = std::min(golden.size(), target.size());
    for (size_t i = 0; i < count; ++i) join(golden[i].number, target[i].number);
  }

  // Joins calls at both ends that have at least this score.
  template <typename Join>
  void Trim(Limits& limits, uint32_t least, const Join& join) const {
    while (limits.pair_count() > 0 &&
           ScoreOf(golden_[limits.golden_begin],
                   target_[limits.target_begin]) >= least) {
      join(limits.golden_begin++, limits.target_begin++);
    }
    while (limits.pair_count() > 0 &&
           ScoreOf(golden_[limits.golden_end - 1],
                   target_[limits.target_end - 1]) >= least) {
      join(--limits.golden_end, --limits.target_end);
    }
  }

  // Joins the calls of the alignment with the highest sum of scores, of several
  // the one with the earliest calls.
  template <typename Join>
  void FindBest(const Limits& limits, const Join& join) const {
    const size_t rows = limits.golden_count();
    const size_t columns = limits.target_count();
    const auto score_of = [&](size_t i, size_t j) {
      return ScoreOf(golden_[limits.golden_begin + i],
                     target_[limits.target_begin + j]);
    };
    // The highest sum from a pair of calls to the end.
    std::vector<uint32_t> best((rows + 1) * (columns + 1));
    const auto at = [&](size_t i, size_t j) -> uint32_t& {
      return best[i * (columns + 1) + j];
    };
    for (size_t i = rows; i-- > 0;) {
      for (size_t j = columns; j-- > 0;) {
        const uint32_t score = score_of(i, j);
        at(i, j) = std::max(at(i + 1, j), at(i, j + 1));
        if (score > 0) at(i, j) = std::max(at(i, j), score + at(i + 1, j + 1));
      }
    }
    for (size_t i = 0, j = 0; i < rows && j < columns;) {
      const uint32_t score = score_of(i, j);
      if (score > 0 && at(i, j) == score + at(i + 1, j + 1)) {
        join(limits.golden_begin + i++, limits.target_begin + j++);
      } else if (at(i, j) == at(i, j + 1)) {
        ++j;
      } else {
        ++i;
      }
    }
  }

  Likenesses likenesses_;
  // Those of the current stretch.
  std::vector<Likeness> golden_;
  std::vector<Likeness> target_;
};

// Numbers the stretch of each call, by the landmarks before it.
template <typename PositionOf>
void FindStretches(const std::vector<Landmark>& landmarks,
                   const PositionOf& position_of, std::vector<Call>& calls) {
  size_t stretch = 0;
  for (Call& call : calls) {
    while (stretch < landmarks.size() &&
           position_of(landmarks[stretch]) < call.begin) {
      ++stretch;
    }
    call.stretch = stretch;
  }
}

// Takes the calls of the first stretch from `calls`.
Stretch TakeStretch(size_t stretch, Stretch& calls) {
  const auto end = std::find_if(
      calls.begin(), calls.end(),
      [stretch](const Call& call) { return call.stretch != stretch; });
  const auto count = static_cast<size_t>(end - calls.begin());
  const Stretch out = calls.first(count);
  calls = calls.subspan(count);
  return out;
}

// Golden calls by target calls of an op.
using Numbers = std::unordered_map<int32_t, int32_t>;

Numbers Align(const Op& op, const std::vector<Landmark>& landmarks,
              StretchAligner& aligner) {
  std::vector<Call> golden = op.golden.Calls();
  std::vector<Call> target = op.target.Calls();
  FindStretches(
      landmarks, [](const Landmark& at) { return at.golden; }, golden);
  FindStretches(
      landmarks, [](const Landmark& at) { return at.target; }, target);
  Numbers out;
  Stretch golden_rest = golden;
  Stretch target_rest = target;
  while (!golden_rest.empty() && !target_rest.empty()) {
    const size_t stretch =
        std::min(golden_rest.front().stretch, target_rest.front().stretch);
    const Stretch of_golden = TakeStretch(stretch, golden_rest);
    const Stretch of_target = TakeStretch(stretch, target_rest);
    aligner.Align(of_golden, of_target, [&out](int32_t golden, int32_t target) {
      out.emplace(target, golden);
    });
  }
  return out;
}

// The ops of both runs.
class Ops {
 public:
  Ops(const MatchRules& rules, const PairingSides& sides,
      const Partners& partners) {
    const auto op_of = [&](std::string name, Io io) -> Op& {
      // Backward calls of msprobe have numbers of their own.
      if (rules.backward_order() && IsOfBackwardCall(io)) name += '\0';
      return ops_[std::move(name)];
    };
    for (size_t i = 0; i < sides.golden.size(); ++i) {
      const TensorKey& key = sides.golden[i].key;
      if (!IsOfCall(key.io) || !partners.IsGoldenFree(i)) continue;
      op_of(rules.KeyOfGolden(key.op), key.io)
          .golden.Add({&sides.golden[i], i});
    }
    for (size_t i = 0; i < sides.target.size(); ++i) {
      const TensorKey& key = sides.target[i].key;
      if (!IsOfCall(key.io) || !partners.IsTargetFree(i)) continue;
      op_of(rules.KeyOfTarget(key.op), key.io)
          .target.Add({&sides.target[i], i});
    }
    for (auto& [name, op] : ops_) {
      op.golden.Sort();
      op.target.Sort();
    }
  }

  std::vector<const Op*> ToAlign() const {
    std::vector<const Op*> out;
    for (const auto& [name, op] : ops_) {
      if (op.is_to_align()) out.push_back(&op);
    }
    return out;
  }

  std::vector<Landmark> Landmarks(bool with_device) const {
    std::vector<Landmark> out;
    for (const auto& [name, op] : ops_) {
      if (op.has_equal_counts()) AddLandmarks(op, with_device, out);
    }
    KeepCommonOrder(out);
    return out;
  }

 private:
  std::unordered_map<std::string, Op> ops_;
};

}  // namespace

CallAlignment::CallAlignment(const MatchRules& rules, const PairingSides& sides,
                             const Partners& partners)
    : target_(sides.target) {
  if (!sides.aligns_calls) return;
  const Ops ops(rules, sides, partners);
  const std::vector<const Op*> to_align = ops.ToAlign();
  if (to_align.empty()) return;
  const std::vector<Landmark> landmarks = ops.Landmarks(sides.with_device);
  golden_calls_.reserve(sides.target.size());
  for (const LogicalTensor& target : sides.target) {
    golden_calls_.emplace_back(target.key.call);
  }
  StretchAligner aligner;
  for (const Op* const op : to_align) {
    const Numbers numbers = Align(*op, landmarks, aligner);
    for (const Leaf& leaf : op->target.leaves()) {
      const auto golden = numbers.find(leaf.call());
      golden_calls_[leaf.position] = golden == numbers.end()
                                         ? std::nullopt
                                         : std::optional(golden->second);
    }
  }
}

std::optional<int32_t> CallAlignment::GoldenCallOf(size_t target) const {
  if (golden_calls_.empty()) return target_[target].key.call;
  return golden_calls_[target];
}

}  // namespace msitd::compare
