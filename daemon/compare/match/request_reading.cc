// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/request_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string_view>

#include "daemon/compare/match/target_names.h"
#include "protos/base/check.h"
#include "protos/base/record_kind.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Weights and other state belong to all requests. Records that are not tensors
// have no rows.
bool HasRowsOfRequests(const LogicalTensor& tensor) {
  const Io io = tensor.key.io;
  return io != Io::kState && io != Io::kWeight && io != Io::kGradWeight &&
         (tensor.kind == RecordKind::kTensor ||
          tensor.kind == RecordKind::kStatistics);
}

// Arguments that describe a batch to the model. A run may do without them.
constexpr std::string_view kBatchArguments[] = {
    "attention_mask", "attn_mask",    "cache_position",
    "mask",           "position_ids", "token_type_ids"};

// Why a tensor that describes a batch needs no counterpart.
const std::shared_ptr<const std::string>& BatchReason() {
  static const auto& reason = *new std::shared_ptr<const std::string>(
      std::make_shared<const std::string>(
          "it describes the batch, not a request; its effect is compared"));
  return reason;
}

bool IsBatchArgument(const TensorKey& key) {
  return key.io == Io::kInput &&
         std::find(std::begin(kBatchArguments), std::end(kBatchArguments),
                   key.index) != std::end(kBatchArguments);
}

// A mask states which elements of a batch see which others, and has another
// form in each batch.
bool IsMask(const LogicalTensor& tensor) {
  return tensor.key.io == Io::kInput && tensor.dtype == DType::kBool &&
         tensor.kind == RecordKind::kTensor;
}

}  // namespace

std::string RequestReading::NameOf(const LogicalTensor& tensor) const {
  std::string out = PairName(tensor.key.op, tensor.key);
  if (tensor.assembly == nullptr) {
    out += '\0';
    out += tensor.key.device;
  }
  return out;
}

absl::Status RequestReading::Begin(storage::StopCheck stop) {
  parts_ = matcher_.request_join()->PartsOf(key_.rank, key_.token);
  if (parts_->empty()) return absl::OkStatus();
  MSITD_ASSIGN_OR_RETURN(
      fits_, matcher_.LoadTensors(/*is_target=*/false, key_, stop, golden_,
                                  golden_incomplete_));
  return absl::OkStatus();
}

std::string RequestReading::NotComparedText(const JoinedPart& part) const {
  if (part.target_id.empty()) {
    return fmt::format("request {} is not in the target run: {}",
                       part.golden_id, PositionsText(part.missing));
  }
  return fmt::format("the target run lacks {} of request {}",
                     PositionsText(part.missing), part.golden_id);
}

absl::StatusOr<TensorGroup> RequestReading::Next(storage::StopCheck stop) {
  TensorGroup group;
  group.token = key_.token;
  group.rank = key_.rank;
  if (!parts_.has_value()) {
    MSITD_RETURN_IF_ERROR(Begin(stop));
    group.golden_incomplete = golden_incomplete_;
    if (const uint64_t count = matcher_.UnknownRequests(key_); count > 0) {
      group.not_compared =
          fmt::format("golden request documents without known rows: {}", count);
      group.is_last_window = false;
      return group;
    }
  }
  if (parts_->empty()) {
    group.not_compared = fmt::format(
        "{} tokens of this rank, from this one on, have no rows of requests",
        matcher_.TokensWithoutRequests(key_.rank));
    return group;
  }
  const JoinedPart& part = (*parts_)[next_++];
  group.is_last_window = next_ == parts_->size();
  group.request = part.golden_id;
  if (!fits_) {
    group.too_large_run = matcher_.golden_name();
    group.is_last_window = true;
    return group;
  }
  if (part.golden.empty()) {
    group.not_compared = NotComparedText(part);
    return group;
  }
  MSITD_ASSIGN_OR_RETURN(const bool fits, LoadTargets(part, stop, group));
  if (!fits) {
    group.too_large_run = matcher_.target_name();
    return group;
  }
  AddViews(part, group);
  if (!has_others_) AddOthers(part, group);
  has_others_ = true;
  matcher_.Pair(group);
  FitPairs(group);
  AddMasks(part, group);
  return group;
}

absl::StatusOr<bool> RequestReading::LoadTargets(const JoinedPart& part,
                                                 storage::StopCheck stop,
                                                 TensorGroup& group) {
  std::set<TargetPlace> places;
  for (const PieceRange& range : part.target) {
    places.emplace(part.target_number, range.piece.token);
  }
  std::erase_if(targets_, [&](const auto& entry) {
    return !places.contains(entry.first);
  });
  size_t count = 0;
  for (const TargetPlace& place : places) {
    const auto [found, is_new] = targets_.try_emplace(place);
    if (is_new) {
      IncompleteTensors incomplete;
      MSITD_ASSIGN_OR_RETURN(
          const bool fits,
          matcher_.LoadTensors(/*is_target=*/true, {place.second, place.first},
                               stop, found->second, incomplete));
      group.target_incomplete.count += incomplete.count;
      group.target_incomplete.ranks = std::move(incomplete.ranks);
      if (!fits) return false;
    }
    count += found->second.size();
    if (count > kGroupTensorsMax) return false;
  }
  return true;
}

void RequestReading::AddViews(const JoinedPart& part, TensorGroup& group) {
  golden_tensors_.clear();
  target_tensors_.clear();
  for (const PieceRange& range : part.golden) {
    for (const LogicalTensor& tensor : golden_) {
      if (!HasRowsOfRequests(tensor) || IsMask(tensor)) continue;
      golden_tensors_[NameOf(tensor)].Add(tensor, range);
    }
  }
  for (const PieceRange& range : part.target) {
    for (const LogicalTensor& tensor :
         targets_.at({part.target_number, range.piece.token})) {
      if (!HasRowsOfRequests(tensor) || IsMask(tensor)) continue;
      target_tensors_[NameOf(tensor)].Add(tensor, range);
    }
  }
  for (const bool is_target : {false, true}) {
    for (const auto& [name, tensor] :
         is_target ? target_tensors_ : golden_tensors_) {
      const std::vector<RowRange> positions = tensor.Positions();
      // A tensor with the last position of each request need not have these.
      if (positions.empty()) continue;
      (is_target ? group.target : group.golden)
          .push_back(tensor.View(positions));
    }
  }
}

void RequestReading::AddOthers(const JoinedPart& part,
                               TensorGroup& group) const {
  for (const LogicalTensor& tensor : golden_) {
    if (!HasRowsOfRequests(tensor)) group.golden.push_back(tensor);
  }
  const TargetPlace place(part.target_number, part.target.front().piece.token);
  for (const LogicalTensor& tensor : targets_.at(place)) {
    if (!HasRowsOfRequests(tensor)) group.target.push_back(tensor);
  }
}

void RequestReading::AddMasks(const JoinedPart& part,
                              TensorGroup& group) const {
  const TargetPlace place(part.target_number, part.target.front().piece.token);
  const std::vector<LogicalTensor>* const sides[] = {&golden_,
                                                     &targets_.at(place)};
  for (const std::vector<LogicalTensor>* const side : sides) {
    for (const LogicalTensor& tensor : *side) {
      if (!IsMask(tensor)) continue;
      group.apart.push_back(tensor);
      group.apart.back().seen_in = BatchReason();
    }
  }
  for (const LogicalTensor& mask : group.apart) {
    const bool is_golden =
        &mask - group.apart.data() <
        std::count_if(golden_.begin(), golden_.end(), IsMask);
    group.pairs.push_back(is_golden ? TensorPair{&mask, nullptr}
                                    : TensorPair{nullptr, &mask});
  }
}

void RequestReading::ExcuseAlone(const TensorPair& pair, TensorGroup& group) {
  const bool is_golden = pair.golden != nullptr;
  const LogicalTensor* const tensor = is_golden ? pair.golden : pair.target;
  if (!IsBatchArgument(tensor->key)) return;
  std::vector<LogicalTensor>& side = is_golden ? group.golden : group.target;
  side[static_cast<size_t>(tensor - side.data())].seen_in = BatchReason();
}

void RequestReading::FitPairs(TensorGroup& group) const {
  for (const TensorPair& pair : group.pairs) {
    if (pair.golden == nullptr || pair.target == nullptr) {
      ExcuseAlone(pair, group);
      continue;
    }
    const auto golden = golden_tensors_.find(NameOf(*pair.golden));
    const auto target = target_tensors_.find(NameOf(*pair.target));
    if (golden == golden_tensors_.end() || target == target_tensors_.end() ||
        pair.golden->view == nullptr || pair.target->view == nullptr) {
      continue;
    }
    const std::vector<RowRange> own = golden->second.Positions();
    const std::vector<RowRange> others = target->second.Positions();
    if (own == others) continue;
    const std::vector<RowRange> common = CommonPositions(own, others);
    LogicalTensor& to_fit =
        group.target[static_cast<size_t>(pair.target - group.target.data())];
    if (common == own) {
      to_fit = target->second.View(common);
      continue;
    }
    to_fit = target->second.Refuse(
        others, fmt::format("it has {} of {} that are compared",
                            CountPositions(common), CountPositions(own)));
  }
}

}  // namespace msitd::compare
