// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/request_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string_view>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"
#include "daemon/compare/match/target_names.h"
#include "daemon/compare/view/tensor_view.h"
#include "protos/base/check.h"
#include "protos/base/record_kind.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Counters of caches, such as their length, have fewer dimensions than this.
constexpr size_t kCacheDimsMin = 3;

bool IsTensor(const LogicalTensor& tensor) {
  return tensor.kind == RecordKind::kTensor ||
         tensor.kind == RecordKind::kStatistics;
}

bool IsCache(const LogicalTensor& tensor, const TokenCaches& caches) {
  const TensorKey& key = RecordedKey(tensor);
  return HasNameOfCache(key) || caches.Has(key);
}

// Returns whether a tensor belongs to a token, and not to one of its requests.
bool IsWhole(const LogicalTensor& tensor, const TokenCaches& caches) {
  const Io io = tensor.key.io;
  // Weights belong to all requests. Records that are not tensors have no rows.
  if (!IsTensor(tensor) || io == Io::kWeight || io == Io::kGradWeight) {
    return true;
  }
  return io == Io::kState && !IsCache(tensor, caches);
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

// Why a tensor that describes a batch needs no counterpart.
const std::shared_ptr<const std::string>& BatchReason() {
  static const auto& reason = *new std::shared_ptr<const std::string>(
      std::make_shared<const std::string>(
          "it describes the batch, not a request; its effect is compared"));
  return reason;
}

// Why a tensor with the last position of each forward needs no counterpart.
const std::shared_ptr<const std::string>& LastPositionReason() {
  static const auto& reason = *new std::shared_ptr<const std::string>(
      std::make_shared<const std::string>(
          "it is the last position of a forward, and the other run ends "
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
  std::string out =
      fmt::format("{}{}{}{}{}", PairName(tensor.key.op, tensor.key), '\0',
                  tensor.key.rank, '\0', tensor.key.device);
  if (tensor.mapped_pair.has_value()) {
    out += fmt::format("{}pair {}", '\0', *tensor.mapped_pair);
  }
  if (tensor.view == nullptr) return out;
  // Several rules may give different tensors the same name.
  const TensorKey& recorded = RecordedKey(tensor);
  out += fmt::format("{}{}{}{}", '\0', PairName(recorded.op, recorded), '\0',
                     tensor.view->text);
  return out;
}

RequestReading::Use RequestReading::UseOf(const LogicalTensor& tensor,
                                          const TokenCaches& caches) {
  if (IsWhole(tensor, caches)) return Use::kWhole;
  if (IsCache(tensor, caches)) {
    return tensor.shape.size() < kCacheDimsMin ? Use::kMask : Use::kCache;
  }
  return IsMask(tensor) ? Use::kMask : Use::kRows;
}

void RequestReading::Loaded::Set(std::vector<LogicalTensor> seen) {
  names.clear();
  uses.clear();
  uses.reserve(seen.size());
  for (const LogicalTensor& tensor : seen) {
    uses.push_back(UseOf(tensor, caches));
  }
  tensors = SharedTensors(std::move(seen));
}

const std::vector<std::string>& RequestReading::Loaded::Names() {
  if (!names.empty()) return names;
  names.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (uses[i] == Use::kRows) names[i] = NameOf(tensors[i]);
  }
  return names;
}

absl::Status RequestReading::Begin(storage::StopCheck stop) {
  parts_ = matcher_.request_join()->PartsOf(key_.rank, key_.token);
  problems_ = matcher_.RequestProblems(key_);
  if (parts_->empty()) return absl::OkStatus();
  std::vector<LogicalTensor> tensors;
  MSITD_ASSIGN_OR_RETURN(
      fits_, matcher_.LoadTensors(/*is_target=*/false, key_, stop, tensors,
                                  golden_incomplete_));
  MSITD_ASSIGN_OR_RETURN(golden_.caches,
                         matcher_.LoadCaches(/*is_target=*/false, key_, stop));
  owes_others_ = std::any_of(tensors.begin(), tensors.end(),
                             [&](const LogicalTensor& tensor) {
                               return IsWhole(tensor, golden_.caches);
                             });
  if (fits_ && owes_others_) MSITD_RETURN_IF_ERROR(LoadTargetOthers(stop));
  if (matcher_.has_mapping_views()) golden_recorded_ = tensors;
  fits_ = fits_ && matcher_.ViewGoldens(goldens_of_others_, tensors);
  golden_.goldens = goldens_of_others_;
  golden_.Set(std::move(tensors));
  return absl::OkStatus();
}

absl::Status RequestReading::LoadTargetOthers(storage::StopCheck stop) {
  IncompleteTensors ignored;
  MSITD_ASSIGN_OR_RETURN(fits_,
                         matcher_.LoadTensors(/*is_target=*/true, key_, stop,
                                              target_others_, ignored));
  MSITD_ASSIGN_OR_RETURN(const TokenCaches caches,
                         matcher_.LoadCaches(/*is_target=*/true, key_, stop));
  std::erase_if(target_others_, [&](const LogicalTensor& tensor) {
    return !IsWhole(tensor, caches);
  });
  fits_ = fits_ && matcher_.ViewTargets(target_others_, goldens_of_others_);
  return absl::OkStatus();
}

bool RequestReading::ViewGoldens(const JoinedPart& part) {
  if (!matcher_.has_mapping_views()) return true;
  ViewedGoldens goldens = goldens_of_others_;
  for (const PieceRange& range : part.target) {
    goldens.Add(targets_.at({part.target_number, range.piece.token}).goldens);
  }
  // Almost all parts of a token have the same ones.
  if (goldens.all() == golden_.goldens.all()) return true;
  std::vector<LogicalTensor> tensors = golden_recorded_;
  if (!matcher_.ViewGoldens(goldens, tensors)) return false;
  golden_.goldens = std::move(goldens);
  golden_.Set(std::move(tensors));
  return true;
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
  if (!ViewGoldens(part)) {
    group.too_large_run = matcher_.golden_name();
    return absl::OkStatus();
  }
  AddViews(part, group);
  AddCaches(part, group);
  if (owes_others_) AddOthers(group);
  matcher_.Pair(group);
  FitPairs(group);
  cached_.Fit(group);
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
  plans_.Clear();
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
      std::vector<LogicalTensor> tensors;
      IncompleteTensors incomplete;
      MSITD_ASSIGN_OR_RETURN(
          bool fits,
          matcher_.LoadTensors(/*is_target=*/true, {place.second, place.first},
                               stop, tensors, incomplete));
      fits = fits && matcher_.ViewTargets(tensors, found->second.goldens);
      group.target_incomplete.count += incomplete.count;
      group.target_incomplete.ranks = std::move(incomplete.ranks);
      if (!fits) {
        targets_.erase(found);
        return false;
      }
      MSITD_ASSIGN_OR_RETURN(
          found->second.caches,
          matcher_.LoadCaches(/*is_target=*/true, {place.second, place.first},
                              stop));
      found->second.Set(std::move(tensors));
    }
    count += found->second.tensors.size();
    if (count > kGroupTensorsMax) return false;
  }
  return true;
}

void RequestReading::AddViews(const JoinedPart& part, TensorGroup& group) {
  CollectRows(
      part.golden, [&](const PieceRange&) -> Loaded& { return golden_; },
      golden_tensors_);
  CollectRows(
      part.target,
      [&](const PieceRange& range) -> Loaded& {
        return targets_.at({part.target_number, range.piece.token});
      },
      target_tensors_);
  viewed_.reserve(golden_tensors_.size() + target_tensors_.size());
  for (const bool is_target : {false, true}) {
    const std::vector<RequestTensor>& tensors =
        is_target ? target_tensors_ : golden_tensors_;
    std::vector<LogicalTensor>& out = is_target ? group.target : group.golden;
    out.reserve(tensors.size());
    for (const RequestTensor& tensor : tensors) {
      out.push_back(tensor.positions().empty()
                        ? tensor.Refuse("it has no row of this request")
                        : tensor.View(tensor.positions(), plans_));
      viewed_.emplace_back(out.back().view.get(), &tensor);
    }
  }
}

void RequestReading::CollectRows(
    std::span<const PieceRange> ranges,
    absl::FunctionRef<Loaded&(const PieceRange&)> loaded_of,
    std::vector<RequestTensor>& out) {
  Loaded* first = nullptr;
  // Numbers of tensors in `out`. Those of the first token are in its order, so
  // that names are only needed for further tokens.
  std::unordered_map<std::string_view, size_t> numbers;
  for (const PieceRange& range : ranges) {
    Loaded& loaded = loaded_of(range);
    if (first == nullptr) first = &loaded;
    const bool is_first = &loaded == first;
    out.reserve(loaded.tensors.size());
    if (!is_first && numbers.empty()) {
      size_t next = 0;
      for (size_t i = 0; i < first->tensors.size(); ++i) {
        if (first->uses[i] != Use::kRows) continue;
        numbers.try_emplace(first->Names()[i], next++);
      }
    }
    size_t next = 0;
    for (size_t i = 0; i < loaded.tensors.size(); ++i) {
      if (loaded.uses[i] != Use::kRows) continue;
      const size_t number =
          is_first ? next++
                   : numbers.try_emplace(loaded.Names()[i], out.size())
                         .first->second;
      if (number == out.size()) out.emplace_back();
      out[number].Add(loaded.tensors, i, range);
    }
  }
}

void RequestReading::AddCaches(const JoinedPart& part, TensorGroup& group) {
  cached_.Begin(part);
  // A golden token is divided if it has the positions of many target tokens.
  if (!part.is_last_of_piece) return;
  const TargetPlace place(part.target_number, part.target.back().piece.token);
  for (const bool is_target : {false, true}) {
    const Loaded& loaded = is_target ? targets_.at(place) : golden_;
    std::vector<LogicalTensor>& out = is_target ? group.target : group.golden;
    for (size_t i = 0; i < loaded.tensors.size(); ++i) {
      if (loaded.uses[i] != Use::kCache) continue;
      out.push_back(cached_.Add(is_target, loaded.tensors[i], loaded.caches));
    }
  }
}

void RequestReading::AddOthers(TensorGroup& group) {
  for (size_t i = 0; i < golden_.tensors.size(); ++i) {
    if (golden_.uses[i] != Use::kWhole) continue;
    group.golden.push_back(golden_.tensors[i]);
  }
  group.target.insert(group.target.end(), target_others_.begin(),
                      target_others_.end());
  owes_others_ = false;
}

void RequestReading::AddMasks(const JoinedPart& part,
                              TensorGroup& group) const {
  const TargetPlace place(part.target_number, part.target.front().piece.token);
  for (const Loaded* const side : {&golden_, &targets_.at(place)}) {
    for (size_t i = 0; i < side->tensors.size(); ++i) {
      if (side->uses[i] != Use::kMask) continue;
      group.apart.push_back(side->tensors[i]);
      group.apart.back().seen_in = BatchReason();
    }
  }
  const auto golden_count = static_cast<size_t>(
      std::count(golden_.uses.begin(), golden_.uses.end(), Use::kMask));
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

void RequestReading::FitPairs(TensorGroup& group) {
  const absl::flat_hash_map<const TensorView*, const RequestTensor*> viewed(
      viewed_.begin(), viewed_.end(), viewed_.size());
  for (TensorPair& pair : group.pairs) {
    if (pair.golden == nullptr || pair.target == nullptr) {
      const bool is_golden = pair.golden != nullptr;
      const LogicalTensor* const tensor = is_golden ? pair.golden : pair.target;
      if (IsOptionalArgument(tensor->key)) {
        MutableOf(*tensor, is_golden, group).seen_in = BatchReason();
      }
      continue;
    }
    const auto golden = viewed.find(pair.golden->view.get());
    const auto target = viewed.find(pair.target->view.get());
    if (golden != viewed.end() && target != viewed.end()) {
      FitPair(*golden->second, *target->second, pair, group);
    }
  }
}

void RequestReading::FitPair(const RequestTensor& golden,
                             const RequestTensor& target, TensorPair& pair,
                             TensorGroup& group) {
  const std::span<const RowRange> own = golden.positions();
  const std::span<const RowRange> others = target.positions();
  LogicalTensor& to_fit = MutableOf(*pair.target, /*is_golden=*/false, group);
  if (!std::ranges::equal(own, others)) {
    const std::vector<RowRange> common = CommonPositions(own, others);
    if (common.empty() && !own.empty() && golden.is_last()) {
      MutableOf(*pair.golden, /*is_golden=*/true, group).seen_in =
          LastPositionReason();
      pair.target = nullptr;
      return;
    }
    if (!std::ranges::equal(common, own)) {
      to_fit = target.Refuse(fmt::format("it has {} of {} that are compared",
                                         CountPositions(common),
                                         CountPositions(own)));
      return;
    }
    to_fit = target.View(common, plans_);
  }
  if ((golden.may_have_keys() || target.may_have_keys()) &&
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
