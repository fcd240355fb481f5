// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/rank_order.h"

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_set>

#include "daemon/compare/match/target_names.h"

namespace msitd::compare {
namespace {

bool IsOutput(Io io) {
  return io == Io::kOutput || io == Io::kGradInput || io == Io::kGradWeight;
}

// Returns whether equal bytes on another rank prove something. Those of weights
// and constants do not.
bool IsTelling(const LogicalTensor& tensor) {
  const Summary& summary = tensor.summary;
  return HasHash(tensor) && tensor.key.io != Io::kWeight &&
         summary.has_extremes() && summary.min < summary.max;
}

uint64_t Mix(uint64_t a, uint64_t b) {
  return (a ^ (b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2))) *
         0xff51afd7ed558ccd;
}

}  // namespace

bool RankOrder::Add(const TensorGroup& group) {
  const auto count = std::count_if(
      group.pairs.begin(), group.pairs.end(),
      [](const TensorPair& pair) { return pair.golden != nullptr; });
  if (tensor_count_ + static_cast<size_t>(count) > kOrderedTensorsMax) {
    return false;
  }
  Rank& rank = ranks_[group.rank];
  std::unordered_set<uint64_t> known;
  for (const TensorPair& pair : group.pairs) {
    if (pair.golden == nullptr) break;
    const LogicalTensor& golden = *pair.golden;
    const Moment here{group.rank, static_cast<int32_t>(rank.tensors.size())};
    Tensor& tensor = rank.tensors.emplace_back();
    tensor.name = std::hash<std::string>()(PairName(golden.key.op, golden.key));
    rank.by_name.emplace(tensor.name, here.position);
    if (!IsTelling(golden)) continue;
    const uint64_t bytes = Mix(golden.hash.low, golden.hash.high);
    tensor.shared = shared_by_name_
                        .try_emplace(Mix(tensor.name, bytes),
                                     static_cast<int32_t>(shared_.size()))
                        .first->second;
    if (static_cast<size_t>(tensor.shared) == shared_.size()) {
      shared_.emplace_back();
    }
    shared_[tensor.shared].push_back(here);
    const bool is_first = known.insert(bytes).second;
    const int32_t number =
        message_by_hash_
            .try_emplace(bytes, static_cast<int32_t>(messages_.size()))
            .first->second;
    if (static_cast<size_t>(number) == messages_.size()) {
      messages_.emplace_back();
    }
    Message& message = messages_[number];
    const bool is_sender =
        !message.senders.empty() && message.senders.back().rank == here.rank;
    if (IsOutput(golden.key.io) && (is_first || is_sender)) {
      // If a rank has several outputs with these bytes, it sent the last one.
      if (is_sender) message.senders.pop_back();
      message.senders.push_back(here);
      tensor.sent = number;
    } else if (is_first) {
      message.receivers.push_back(here);
    }
  }
  tensor_count_ += rank.tensors.size();
  return true;
}

// Follows shared moments and messages from rank to rank. Everything on a rank
// after its first position that is reached is certainly after `from`. If a rank
// is reached again at an earlier position, only the tensors between the two
// positions are new, so each tensor is scanned once.
std::map<int32_t, int32_t> RankOrder::PositionsFrom(Moment from) const {
  std::map<int32_t, int32_t> reached;
  std::vector<std::pair<Moment, int32_t>> to_scan;
  std::vector<bool> seen(shared_.size());
  const auto reach = [&](Moment moment) {
    const auto rank = ranks_.find(moment.rank);
    if (rank == ranks_.end()) return;
    const auto end = static_cast<int32_t>(rank->second.tensors.size());
    const auto [found, is_new] = reached.try_emplace(moment.rank, end);
    if (moment.position >= found->second) return;
    to_scan.push_back({moment, found->second});
    found->second = moment.position;
  };
  reach(from);
  while (!to_scan.empty()) {
    const auto [begin, end] = to_scan.back();
    to_scan.pop_back();
    const Rank& rank = ranks_.at(begin.rank);
    for (int32_t i = begin.position; i < end; ++i) {
      const Tensor& tensor = rank.tensors[i];
      if (tensor.shared >= 0 && !seen[tensor.shared]) {
        seen[tensor.shared] = true;
        for (const Moment& other : shared_[tensor.shared]) reach(other);
      }
      if (tensor.sent < 0) continue;
      for (const Moment& receiver : messages_[tensor.sent].receivers) {
        reach(receiver);
      }
    }
  }
  return reached;
}

int32_t RankOrder::PositionOfName(Moment other, int32_t rank) const {
  const auto of = ranks_.find(other.rank);
  const auto in = ranks_.find(rank);
  if (of == ranks_.end() || in == ranks_.end()) return -1;
  const std::vector<Tensor>& tensors = of->second.tensors;
  if (static_cast<size_t>(other.position) >= tensors.size()) return -1;
  const auto found = in->second.by_name.find(tensors[other.position].name);
  return found == in->second.by_name.end() ? -1 : found->second;
}

}  // namespace msitd::compare
