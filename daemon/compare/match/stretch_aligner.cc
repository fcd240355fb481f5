// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/stretch_aligner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/compare/match/pairing.h"
#include "protos/base/dtype.h"

namespace msitd::compare {
namespace {

// Scores of the properties that two calls have in common. FindBest joins at
// most 256 pairs (the root of kPairsMax), so that a sum of lower scores never
// exceeds a higher score.
constexpr uint64_t kAlikeFirstInput = 1;
constexpr uint64_t kAlikeInputs = uint64_t{1} << 9;
constexpr uint64_t kAlike = uint64_t{1} << 18;
constexpr uint64_t kEqualInputs = uint64_t{1} << 27;
constexpr uint64_t kPair = uint64_t{1} << 36;

// Describes a tensor of a call by its name and shape.
std::string TextOf(const LogicalTensor& tensor) {
  std::string out = fmt::format("{}{}{}{}", IoName(tensor.key.io), '\0',
                                tensor.key.index, '\0');
  for (const int64_t size : tensor.shape) {
    if (size != 1) out += fmt::format("{},", size);
  }
  return out + '\n';
}

void JoinInOrder(std::span<const OpCall> golden, std::span<const OpCall> target,
                 std::vector<CallPair>& out) {
  const size_t count = std::min(golden.size(), target.size());
  for (size_t i = 0; i < count; ++i) {
    out.push_back({golden[i].number, target[i].number});
  }
}

}  // namespace

// The calls that are not paired yet, by their positions in the stretch.
struct StretchAligner::Limits {
  size_t golden_begin = 0;
  size_t golden_end = 0;
  size_t target_begin = 0;
  size_t target_end = 0;

  size_t golden_count() const { return golden_end - golden_begin; }
  size_t target_count() const { return target_end - target_begin; }
  size_t pair_count() const { return golden_count() * target_count(); }
};

void StretchAligner::Align(std::span<const OpCall> golden,
                           std::span<const OpCall> target,
                           std::vector<CallPair>& out) {
  if (golden.size() == target.size()) {
    JoinInOrder(golden, target, out);
    return;
  }
  if (golden.empty() || target.empty()) return;
  golden_ = LikenessesOf(golden);
  target_ = LikenessesOf(target);
  Limits limits{0, golden.size(), 0, target.size()};
  const auto join = [&](size_t i, size_t j) {
    out.push_back({golden[i].number, target[j].number});
  };
  for (const uint64_t least : {kPair + kEqualInputs, kPair + kAlike}) {
    if (limits.pair_count() > kPairsMax) Trim(limits, least, join);
  }
  if (limits.pair_count() <= kPairsMax) {
    FindBest(limits, join);
    return;
  }
  JoinInOrder(golden.subspan(limits.golden_begin, limits.golden_count()),
              target.subspan(limits.target_begin, limits.target_count()), out);
}

uint64_t StretchAligner::ScoreOf(const Likeness& golden,
                                 const Likeness& target) {
  const auto is_equal = [](uint32_t a, uint32_t b) { return a != 0 && a == b; };
  uint64_t score = kPair;
  if (is_equal(golden.bytes, target.bytes)) score += kEqualInputs;
  if (is_equal(golden.all, target.all)) return score + kAlike;
  if (is_equal(golden.inputs, target.inputs)) return score + kAlikeInputs;
  if (is_equal(golden.first, target.first)) return score + kAlikeFirstInput;
  return score;
}

StretchAligner::Likeness StretchAligner::LikenessOf(const OpCall& call) {
  std::string first;
  std::string inputs;
  std::string all;
  std::string bytes;
  bool is_known = true;
  const bool has_forward = std::any_of(
      call.tensors.begin(), call.tensors.end(), [](const CallTensor& of) {
        return !IsOfBackwardCall(of.tensor->key.io);
      });
  for (const CallTensor& of : call.tensors) {
    const LogicalTensor& tensor = *of.tensor;
    if (tensor.kind != RecordKind::kTensor) continue;
    // Checkpoints move gradients to another call of the same kind.
    if (has_forward && IsOfBackwardCall(tensor.key.io)) continue;
    const std::string text = TextOf(tensor);
    all += text;
    if (tensor.key.io != Io::kInput) continue;
    if (first.empty()) first = text;
    inputs += text;
    is_known = is_known && HasHash(tensor) && tensor.hash != ContentHash();
    bytes += fmt::format("{} {} {}\n", DTypeName(tensor.dtype), tensor.hash.low,
                         tensor.hash.high);
  }
  if (!is_known) bytes.clear();
  if (!bytes.empty()) bytes += inputs;
  return {NumberOf(std::move(first)), NumberOf(std::move(inputs)),
          NumberOf(std::move(all)), NumberOf(std::move(bytes))};
}

std::vector<StretchAligner::Likeness> StretchAligner::LikenessesOf(
    std::span<const OpCall> calls) {
  std::vector<Likeness> out;
  out.reserve(calls.size());
  for (const OpCall& call : calls) out.push_back(LikenessOf(call));
  return out;
}

uint32_t StretchAligner::NumberOf(std::string text) {
  if (text.empty()) return 0;
  const auto next = static_cast<uint32_t>(numbers_.size() + 1);
  return numbers_.try_emplace(std::move(text), next).first->second;
}

template <typename Join>
void StretchAligner::Trim(Limits& limits, uint64_t least,
                          const Join& join) const {
  while (limits.pair_count() > 0 &&
         ScoreOf(golden_[limits.golden_begin], target_[limits.target_begin]) >=
             least) {
    join(limits.golden_begin++, limits.target_begin++);
  }
  while (limits.pair_count() > 0 &&
         ScoreOf(golden_[limits.golden_end - 1],
                 target_[limits.target_end - 1]) >= least) {
    join(--limits.golden_end, --limits.target_end);
  }
}

template <typename Join>
void StretchAligner::FindBest(const Limits& limits, const Join& join) const {
  const size_t rows = limits.golden_count();
  const size_t columns = limits.target_count();
  const auto score_of = [&](size_t i, size_t j) {
    return ScoreOf(golden_[limits.golden_begin + i],
                   target_[limits.target_begin + j]);
  };
  // The highest sum of scores from each pair of calls to the end.
  std::vector<uint64_t> best((rows + 1) * (columns + 1));
  const auto at = [&](size_t i, size_t j) -> uint64_t& {
    return best[i * (columns + 1) + j];
  };
  for (size_t i = rows; i-- > 0;) {
    for (size_t j = columns; j-- > 0;) {
      at(i, j) = std::max(
          {at(i + 1, j), at(i, j + 1), score_of(i, j) + at(i + 1, j + 1)});
    }
  }
  for (size_t i = 0, j = 0; i < rows && j < columns;) {
    if (at(i, j) == score_of(i, j) + at(i + 1, j + 1)) {
      join(limits.golden_begin + i++, limits.target_begin + j++);
    } else if (at(i, j) == at(i, j + 1)) {
      ++j;
    } else {
      ++i;
    }
  }
}

}  // namespace msitd::compare
