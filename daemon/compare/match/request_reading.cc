// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/request_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string_view>

#include "daemon/compare/match/target_names.h"
#include "daemon/compare/view/tensor_view.h"
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

// Arguments that describe the batch, including its padding, to the model. Each
// batch has its own.
constexpr std::string_view kMasks[] = {"attention_mask", "attn_mask",
                                       "cache_position", "mask"};

// Arguments with a value for each position that a run may do without.
constexpr std::string_view kOptionalArguments[] = {"position_ids",
                                                   "token_type_ids"};

bool IsMask(const LogicalTensor& tensor) {
  if (tensor.key.io != Io::kInput) return false;
  return tensor.dtype == DType::kBool ||
         std::find(std::begin(kMasks), std::end(kMasks), tensor.key.index) !=
             std::end(kMasks);
}

bool IsOptionalArgument(const TensorKey& key) {
  return key.io == Io::kInput &&
         std::find(std::begin(kOptionalArguments), std::end(kOptionalArguments),
                   key.index) != std::end(kOptionalArguments);
}

std::shared_ptr<const std::string> SharedText(const char* text) {
  return std::make_shared<const std::string>(text);
}

// Why a tensor that describes a batch needs no counterpart.
const std::shared_ptr<const std::string>& BatchReason() {
  static const auto& reason =
      *new std::shared_ptr<const std::string>(SharedText(
          "it describes the batch, not a request; its effect is compared"));
  return reason;
}

// Why a tensor with the last position of each forward needs no counterpart.
const std::shared_ptr<const std::string>& LastPositionReason() {
  static const auto& reason = *new std::shared_ptr<const std::string>(
      SharedText("it is the last position of a forward, and the other run ends "
                 "its forwards elsewhere"));
  return reason;
}

// Returns whether two views differ only in the length of the last dimension.
bool DifferInLastDimension(const LogicalTensor& a, const LogicalTensor& b) {
  return ViewProblem(a).empty() && ViewProblem(b).empty() &&
         a.shape.size() == b.shape.size() && !a.shape.empty() &&
         a.shape.back() != b.shape.back() &&
         std::equal(a.shape.begin(), a.shape.end() - 1, b.shape.begin());
}

}  // namespace

std::string RequestReading::NameOf(const LogicalTensor& tensor) {
  // Tensors on different meshes have equal names, and different first shards.
  return fmt::format("{}{}{}{}{}", PairName(tensor.key.op, tensor.key), '\0',
                     tensor.key.rank, '\0', tensor.key.device);
}

void RequestReading::Loaded::SetNames() {
  names.reserve(tensors.size());
  for (const LogicalTensor& tensor : tensors) names.push_back(NameOf(tensor));
}

absl::Status RequestReading::Begin(storage::StopCheck stop) {
  parts_ = matcher_.request_join()->PartsOf(key_.rank, key_.token);
  problems_ = matcher_.RequestProblems(key_);
  if (parts_->empty()) return absl::OkStatus();
  MSITD_ASSIGN_OR_RETURN(
      fits_, matcher_.LoadTensors(/*is_target=*/false, key_, stop,
                                  golden_.tensors, golden_incomplete_));
  golden_.SetNames();
  owes_others_ = std::any_of(
      golden_.tensors.begin(), golden_.tensors.end(),
      [](const LogicalTensor& tensor) { return !HasRowsOfRequests(tensor); });
  if (!fits_ || !owes_others_) return absl::OkStatus();
  // They belong to a token, and not to one of its requests.
  IncompleteTensors ignored;
  MSITD_ASSIGN_OR_RETURN(fits_,
                         matcher_.LoadTensors(/*is_target=*/true, key_, stop,
                                              target_others_, ignored));
  std::erase_if(target_others_, HasRowsOfRequests);
  return absl::OkStatus();
}

std::string RequestReading::NotComparedText(const JoinedPart& part) {
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
  }
  if (!problems_.empty()) {
    group.not_compared = std::move(problems_.front());
    problems_.pop_front();
    group.is_last_window = false;
    return group;
  }
  if (parts_->empty()) {
    group.not_compared = fmt::format(
        "tokens of this rank without rows of requests, from this one on: {}",
        matcher_.TokensWithoutRequests(key_.rank));
    return group;
  }
  if (!fits_) {
    group.too_large_run = matcher_.golden_name();
    return group;
  }
  if (next_ == parts_->size()) {
    AddOthers(group);
    matcher_.Pair(group);
    return group;
  }
  const JoinedPart& part = (*parts_)[next_++];
  group.request = part.golden_id;
  if (part.golden.empty()) {
    group.not_compared = NotComparedText(part);
    group.is_last_window = next_ == parts_->size() && !owes_others_;
    return group;
  }
  MSITD_RETURN_IF_ERROR(Compare(part, stop, group));
  group.is_last_window = next_ == parts_->size() && !owes_others_;
  return group;
}

absl::Status RequestReading::Compare(const JoinedPart& part,
                                     storage::StopCheck stop,
                                     TensorGroup& group) {
  MSITD_ASSIGN_OR_RETURN(const bool fits, LoadTargets(part, stop, group));
  if (!fits) {
    group.too_large_run = matcher_.target_name();
    return absl::OkStatus();
  }
  AddViews(part, group);
  if (owes_others_) AddOthers(group);
  matcher_.Pair(group);
  FitPairs(group);
  if (part.is_of_other_rank) {
    std::erase_if(group.pairs, [](const TensorPair& pair) {
      return pair.golden == nullptr;
    });
  }
  AddMasks(part, group);
  return absl::OkStatus();
}

absl::StatusOr<bool> RequestReading::LoadTargets(const JoinedPart& part,
                                                 storage::StopCheck stop,
                                                 TensorGroup& group) {
  golden_tensors_.clear();
  target_tensors_.clear();
  viewed_.clear();
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
                               stop, found->second.tensors, incomplete));
      group.target_incomplete.count += incomplete.count;
      group.target_incomplete.ranks = std::move(incomplete.ranks);
      if (!fits) {
        targets_.erase(found);
        return false;
      }
      found->second.SetNames();
    }
    count += found->second.tensors.size();
    if (count > kGroupTensorsMax) return false;
  }
  return true;
}

void RequestReading::AddViews(const JoinedPart& part, TensorGroup& group) {
  const auto add = [](const Loaded& loaded, const PieceRange& range,
                      Tensors& out) {
    for (size_t i = 0; i < loaded.tensors.size(); ++i) {
      const LogicalTensor& tensor = loaded.tensors[i];
      if (!HasRowsOfRequests(tensor) || IsMask(tensor)) continue;
      out[loaded.names[i]].Add(tensor, range);
    }
  };
  for (const PieceRange& range : part.golden) {
    add(golden_, range, golden_tensors_);
  }
  for (const PieceRange& range : part.target) {
    add(targets_.at({part.target_number, range.piece.token}), range,
        target_tensors_);
  }
  for (const bool is_target : {false, true}) {
    std::vector<LogicalTensor>& out = is_target ? group.target : group.golden;
    for (const auto& [name, tensor] :
         is_target ? target_tensors_ : golden_tensors_) {
      const std::vector<RowRange> positions = tensor.Positions();
      out.push_back(positions.empty()
                        ? tensor.Refuse("it has no row of this request")
                        : tensor.View(positions));
      viewed_.emplace(out.back().view.get(), &tensor);
    }
  }
}

void RequestReading::AddOthers(TensorGroup& group) {
  for (const LogicalTensor& tensor : golden_.tensors) {
    if (!HasRowsOfRequests(tensor)) group.golden.push_back(tensor);
  }
  group.target.insert(group.target.end(), target_others_.begin(),
                      target_others_.end());
  owes_others_ = false;
}

void RequestReading::AddMasks(const JoinedPart& part,
                              TensorGroup& group) const {
  const TargetPlace place(part.target_number, part.target.front().piece.token);
  const std::vector<LogicalTensor>* const sides[] = {
      &golden_.tensors, &targets_.at(place).tensors};
  for (const std::vector<LogicalTensor>* const side : sides) {
    for (const LogicalTensor& tensor : *side) {
      if (!IsMask(tensor)) continue;
      group.apart.push_back(tensor);
      group.apart.back().seen_in = BatchReason();
    }
  }
  const auto golden_count = static_cast<size_t>(
      std::count_if(golden_.tensors.begin(), golden_.tensors.end(), IsMask));
  for (size_t i = 0; i < group.apart.size(); ++i) {
    const LogicalTensor& mask = group.apart[i];
    if (i >= golden_count) {
      group.pairs.push_back({nullptr, &mask});
      continue;
    }
    // Golden tensors are in execution order, followed by target ones.
    const auto next = std::find_if(
        group.pairs.begin(), group.pairs.end(), [&](const TensorPair& pair) {
          return pair.golden == nullptr ||
                 pair.golden->sequence > mask.sequence;
        });
    group.pairs.insert(next, {&mask, nullptr});
  }
}

void RequestReading::FitPairs(TensorGroup& group) const {
  for (TensorPair& pair : group.pairs) {
    if (pair.golden == nullptr || pair.target == nullptr) {
      const bool is_golden = pair.golden != nullptr;
      const LogicalTensor* const tensor = is_golden ? pair.golden : pair.target;
      if (IsOptionalArgument(tensor->key)) {
        MutableOf(*tensor, is_golden, group).seen_in = BatchReason();
      }
      continue;
    }
    const auto golden = viewed_.find(pair.golden->view.get());
    const auto target = viewed_.find(pair.target->view.get());
    if (golden != viewed_.end() && target != viewed_.end()) {
      FitPair(*golden->second, *target->second, pair, group);
    }
  }
}

void RequestReading::FitPair(const RequestTensor& golden,
                             const RequestTensor& target, TensorPair& pair,
                             TensorGroup& group) {
  const std::vector<RowRange> own = golden.Positions();
  const std::vector<RowRange> others = target.Positions();
  const std::vector<RowRange> common = CommonPositions(own, others);
  LogicalTensor& to_fit = MutableOf(*pair.target, /*is_golden=*/false, group);
  if (common.empty() && !own.empty() && golden.is_last()) {
    MutableOf(*pair.golden, /*is_golden=*/true, group).seen_in =
        LastPositionReason();
    pair.target = nullptr;
    return;
  }
  if (common != own) {
    to_fit =
        target.Refuse(fmt::format("it has {} of {} that are compared",
                                  CountPositions(common), CountPositions(own)));
    return;
  }
  if (common != others) to_fit = target.View(common);
  if (golden.may_have_keys() && target.may_have_keys() &&
      DifferInLastDimension(*pair.golden, to_fit)) {
    to_fit = target.Refuse("the keys of its positions include padding");
  }
}

LogicalTensor& RequestReading::MutableOf(const LogicalTensor& tensor,
                                         bool is_golden, TensorGroup& group) {
  std::vector<LogicalTensor>& side = is_golden ? group.golden : group.target;
  return side[static_cast<size_t>(&tensor - side.data())];
}

}  // namespace msitd::compare
