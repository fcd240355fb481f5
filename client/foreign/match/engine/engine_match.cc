// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/engine/engine_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/foreign/match/engine/engine_places.h"
#include "client/foreign/match/engine/engine_run.h"
#include "client/foreign/match/engine/engine_shards.h"
#include "client/foreign/match/engine/engine_view.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

constexpr std::string_view kSameName = "the same name";
constexpr LeftReason kNoModule{"the other run has no such module"};
constexpr LeftReason kNoSuchTensor{"its module in the other run lacks it"};
constexpr LeftReason kOtherShape{"it has another size in the other run"};
constexpr LeftReason kTwice{"another tensor of its run is the same", true};

bool IsActivation(Io io) {
  return io == Io::kInput || io == Io::kOutput || io == Io::kGradInput ||
         io == Io::kGradOutput;
}

std::vector<int64_t> WithoutOnes(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

// Returns how the rows of two activations relate; nothing if they cannot be the
// same tensor. The last dimension is the one that a batch does not change.
std::optional<RowRelation> RelationOf(const std::vector<int64_t>& golden,
                                      const std::vector<int64_t>& target) {
  if (golden == target) return RowRelation::kEqual;
  const std::vector<int64_t> a = WithoutOnes(golden);
  const std::vector<int64_t> b = WithoutOnes(target);
  if (a == b) return RowRelation::kSqueezed;
  // Only rows, such as token ids.
  if (a.size() <= 1 && b.size() <= 1 && golden.size() <= 2 &&
      target.size() <= 2) {
    return RowRelation::kDifferent;
  }
  if (golden.empty() || target.empty() || golden.back() != target.back()) {
    return std::nullopt;
  }
  return RowRelation::kDifferent;
}

uint64_t RowsOf(const std::vector<int64_t>& shape) {
  return shape.empty() || shape.back() == 0
             ? 0
             : ElementCount(shape) / static_cast<uint64_t>(shape.back());
}

// A place of a tensor, by its indexes in EnginePlaces.
struct PlaceNumber {
  size_t entry = 0;
  size_t place = 0;
};

using Index = std::map<CommonTensor, std::vector<PlaceNumber>>;

// Lists the places of a run. Fallbacks of a tensor that has another place are
// left out.
Index IndexOf(const EnginePlaces& places, bool is_fused) {
  Index out;
  for (const bool is_fallback : {false, true}) {
    for (size_t i = 0; i < places.entries.size(); ++i) {
      const auto& entry = places.entries[i];
      for (size_t j = 0; j < entry.places.size(); ++j) {
        const EnginePlace& place = entry.places[j];
        if (place.is_fallback != is_fallback || place.is_fused != is_fused) {
          continue;
        }
        std::vector<PlaceNumber>& numbers = out[place.is];
        if (!is_fallback || numbers.empty()) numbers.push_back({i, j});
      }
    }
  }
  return out;
}

// A pair before views are written.
struct EnginePair {
  Slot golden;
  Slot target;
  EngineView golden_view;
  EngineView target_view;
  std::string reason;
  bool is_activation = false;
  bool has_logits = false;
};

class EngineMatcher {
 public:
  EngineMatcher(const RunFacts& golden, const RunFacts& target,
                EnginePlaces golden_places, EnginePlaces target_places)
      : golden_(std::move(golden_places)),
        target_(std::move(target_places)),
        builder_(golden, target) {}

  absl::StatusOr<Mapping> Match(bool is_one_engine) {
    if (is_one_engine) PairSameNames();
    PairAll(IndexOf(golden_, true), IndexOf(target_, true));
    // An unfused tensor can be the whole of a fused one.
    PairAll(WithFused(IndexOf(golden_, false), golden_),
            WithFused(IndexOf(target_, false), target_));
    const RowRelation rows = AlignRows();
    Build();
    LeaveAll(golden_, target_, /*is_golden=*/true);
    LeaveAll(target_, golden_, /*is_golden=*/false);
    MSITD_ASSIGN_OR_RETURN(Mapping mapping,
                           builder_.Finish(kNoModule, kNoModule));
    mapping.rows = rows;
    if (is_one_engine) KeepOnlyOtherNames(mapping);
    return mapping;
  }

 private:
  // Pairs tensors of equal names, to which no rule applies then.
  void PairSameNames() {
    std::map<std::string_view, size_t> goldens;
    for (size_t i = 0; i < builder_.golden().ops.size(); ++i) {
      goldens.emplace(builder_.golden().ops[i].op, i);
    }
    std::map<std::pair<size_t, size_t>, size_t> golden_entries;
    for (size_t i = 0; i < golden_.entries.size(); ++i) {
      const Slot slot = golden_.entries[i].slot;
      golden_entries[{slot.op, slot.tensor}] = i;
    }
    for (size_t i = 0; i < target_.entries.size(); ++i) {
      const Slot slot = target_.entries[i].slot;
      const OpFacts& op = builder_.target().ops[slot.op];
      const TensorFacts& tensor = op.tensors[slot.tensor];
      const auto golden = goldens.find(op.op);
      if (golden == goldens.end()) continue;
      const auto found = FindTensor(builder_.golden().ops[golden->second],
                                    tensor.io, tensor.index);
      if (!found.has_value()) continue;
      builder_.Pair({golden->second, *found}, slot, kSameName);
      whole_golden_.insert(golden_entries.at({golden->second, *found}));
      whole_target_.insert(i);
    }
  }

  // Adds the fused tensors that are not paired yet, so that a model whose own
  // projections are fused is paired with them.
  Index WithFused(Index index, const EnginePlaces& places) const {
    for (const auto& [is, numbers] : IndexOf(places, true)) {
      index.try_emplace(is, numbers);
    }
    return index;
  }

  void PairAll(const Index& goldens, const Index& targets) {
    for (const auto& [is, numbers] : targets) {
      const auto found = goldens.find(is);
      if (found == goldens.end()) continue;
      const PlaceNumber golden = found->second.front();
      for (size_t i = 1; i < found->second.size(); ++i) {
        twice_golden_.insert(found->second[i].entry);
      }
      for (const PlaceNumber target : numbers) PairOne(golden, target);
    }
  }

  void PairOne(PlaceNumber golden, PlaceNumber target) {
    const auto& golden_entry = golden_.entries[golden.entry];
    const auto& target_entry = target_.entries[target.entry];
    const EnginePlace& from = golden_entry.places[golden.place];
    const EnginePlace& to = target_entry.places[target.place];
    // A tensor that is paired as a whole is not divided.
    if (whole_golden_.contains(golden.entry) ||
        whole_target_.contains(target.entry)) {
      return;
    }
    EnginePair pair{.golden = golden_entry.slot,
                    .target = target_entry.slot,
                    .golden_view = from.view,
                    .target_view = to.view,
                    .reason = to.reason};
    if (pair.golden_view.text().size() > pair.target_view.text().size()) {
      pair.reason = from.reason;
    }
    pair.is_activation = IsActivation(std::get<Io>(from.is));
    pair.has_logits = from.has_logits || to.has_logits;
    if (from.has_vocabulary || to.has_vocabulary) CutPadding(pair);
    const bool fits =
        pair.is_activation
            ? RelationOf(pair.golden_view.shape(), pair.target_view.shape())
                  .has_value()
            : pair.golden_view.shape() == pair.target_view.shape();
    if (!fits) {
      other_shape_golden_.insert(golden.entry);
      other_shape_target_.insert(target.entry);
      return;
    }
    if (from.is_fused && to.is_fused) {
      whole_golden_.insert(golden.entry);
      whole_target_.insert(target.entry);
    }
    pairs_.push_back(std::move(pair));
  }

  // Removes rows of padding from a vocabulary.
  static void CutPadding(EnginePair& pair) {
    const std::vector<int64_t>& golden = pair.golden_view.shape();
    const std::vector<int64_t>& target = pair.target_view.shape();
    if (golden.empty() || target.empty()) return;
    const bool is_logits = pair.is_activation;
    if (is_logits && !pair.has_logits) return;
    const int dim = is_logits ? -1 : 0;
    const int64_t a = is_logits ? golden.back() : golden.front();
    const int64_t b = is_logits ? target.back() : target.front();
    if (a > b) pair.golden_view.Slice(dim, 0, b);
    if (b > a) pair.target_view.Slice(dim, 0, a);
  }

  // Returns how the rows of all activations relate. If the runs have the same
  // rows, but one has only the logits of the last one, selects these.
  RowRelation AlignRows() {
    RowRelation out = RowRelation::kEqual;
    for (const EnginePair& pair : pairs_) {
      if (!pair.is_activation || pair.has_logits) continue;
      const auto relation =
          RelationOf(pair.golden_view.shape(), pair.target_view.shape());
      if (relation.has_value()) out = std::max(out, *relation);
    }
    if (out == RowRelation::kDifferent) return out;
    for (EnginePair& pair : pairs_) {
      if (!pair.is_activation || !pair.has_logits) continue;
      const uint64_t golden_rows = RowsOf(pair.golden_view.shape());
      const uint64_t target_rows = RowsOf(pair.target_view.shape());
      if (golden_rows > 1 && target_rows == 1) pair.golden_view.Last(-2);
      if (target_rows > 1 && golden_rows == 1) pair.target_view.Last(-2);
      const auto relation =
          RelationOf(pair.golden_view.shape(), pair.target_view.shape());
      if (relation.has_value()) out = std::max(out, *relation);
    }
    return out;
  }

  void Build() {
    std::map<std::pair<size_t, size_t>, size_t> counts;
    for (const EnginePair& pair : pairs_) {
      ++counts[{pair.target.op, pair.target.tensor}];
    }
    for (const EnginePair& pair : pairs_) {
      MappingBuilder::Views views{pair.golden_view.text(),
                                  pair.target_view.text()};
      if (counts.at({pair.target.op, pair.target.tensor}) > 1 &&
          views.golden.empty() && views.target.empty()) {
        views.target = kWholeView;
      }
      if (views.golden.empty() && views.target.empty()) {
        builder_.Pair(pair.golden, pair.target, pair.reason);
      } else {
        builder_.PairViews(pair.golden, pair.target, pair.reason,
                           std::move(views));
      }
    }
  }

  // States why the tensors of a run have no counterpart.
  void LeaveAll(const EnginePlaces& own, const EnginePlaces& other,
                bool is_golden) {
    for (size_t i = 0; i < own.entries.size(); ++i) {
      const auto& entry = own.entries[i];
      const std::optional<std::string> gone = GoneOf(entry, other);
      if (gone.has_value()) {
        Leave(entry.slot, {*gone, true}, is_golden);
        continue;
      }
      if (!entry.unfit.empty() && entry.places.size() < 2) {
        Leave(entry.slot, {entry.unfit}, is_golden);
        continue;
      }
      const auto& unfit = is_golden ? other_shape_golden_ : other_shape_target_;
      Leave(entry.slot, ReasonOf(entry, other, unfit.contains(i), is_golden, i),
            is_golden);
    }
  }

  LeftReason ReasonOf(const EnginePlaces::Entry& entry,
                      const EnginePlaces& other, bool has_other_shape,
                      bool is_golden, size_t number) const {
    if (has_other_shape) return kOtherShape;
    if (is_golden && twice_golden_.contains(number)) return kTwice;
    const bool has_module = std::any_of(
        entry.places.begin(), entry.places.end(), [&](const auto& place) {
          return other.modules.contains(std::get<0>(place.is));
        });
    return has_module ? kNoSuchTensor : kNoModule;
  }

  // Returns why a tensor has no counterpart by design, in its own engine or in
  // the other one.
  static std::optional<std::string> GoneOf(const EnginePlaces::Entry& entry,
                                           const EnginePlaces& other) {
    if (!entry.gone.empty()) return entry.gone;
    for (const EnginePlace& place : entry.places) {
      const auto found = other.gone.find(place.is);
      if (found != other.gone.end()) return found->second;
      const std::string& module = std::get<0>(place.is);
      if (other.table == nullptr || other.modules.contains(module)) continue;
      for (const auto& [pattern, why] : other.table->lacks) {
        if (FitsPattern(module, pattern)) return why;
      }
    }
    return std::nullopt;
  }

  void Leave(Slot slot, const LeftReason& reason, bool is_golden) {
    if (is_golden) {
      builder_.LeaveGolden(slot, reason);
    } else {
      builder_.LeaveTarget(slot, reason);
    }
  }

  // Two runs of one engine: tensors of equal names need no line, and others are
  // paired by name as well.
  static void KeepOnlyOtherNames(Mapping& mapping) {
    const bool has_others = std::any_of(
        mapping.lines.begin(), mapping.lines.end(), [](const Line& line) {
          return line.golden.has_value() && line.target.has_value() &&
                 !IsSameName(line);
        });
    if (!has_others) {
      mapping.lines.clear();
    } else {
      std::erase_if(mapping.lines, IsSameName);
    }
    mapping.pairs_others = true;
  }

  static bool IsSameName(const Line& line) {
    return line.golden.has_value() && line.target.has_value() &&
           line.golden_view.empty() && line.target_view.empty() &&
           *line.golden == *line.target;
  }

  const EnginePlaces golden_;
  const EnginePlaces target_;
  MappingBuilder builder_;
  std::vector<EnginePair> pairs_;
  // Numbers of entries.
  std::set<size_t> whole_golden_;
  std::set<size_t> whole_target_;
  std::set<size_t> twice_golden_;
  std::set<size_t> other_shape_golden_;
  std::set<size_t> other_shape_target_;
};

}  // namespace

absl::StatusOr<Mapping> MatchEngines(const RunFacts& golden,
                                     const RunFacts& target, int golden_ranks,
                                     int target_ranks) {
  const EngineRun golden_run = ReadEngineRun(golden);
  const EngineRun target_run = ReadEngineRun(target);
  if (golden_run.table == nullptr || target_run.table == nullptr) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "run {} names no engine: it needs the document {} that "
                      "hooks record, or the label source",
                      golden_run.table == nullptr ? golden.run : target.run,
                      kModuleTreeDocument);
  }
  const EngineSizes golden_sizes = SizesOf(golden_run, target_run);
  const EngineSizes target_sizes = SizesOf(target_run, golden_run);
  const auto shared_by = [](const RunFacts& facts, const EngineRun& run,
                            const EngineSizes& sizes, int ranks) {
    const int shared = RanksOfLayer(facts, run, sizes);
    return ranks > 1 && ranks % shared == 0 ? shared : 1;
  };
  const int golden_shared =
      shared_by(golden, golden_run, golden_sizes, golden_ranks);
  const int target_shared =
      shared_by(target, target_run, target_sizes, target_ranks);
  EngineMatcher matcher(
      golden, target, PlacesOf(golden, golden_run, golden_sizes, golden_shared),
      PlacesOf(target, target_run, target_sizes, target_shared));
  const bool is_one_engine = golden_run.table == target_run.table;
  MSITD_ASSIGN_OR_RETURN(Mapping mapping, matcher.Match(is_one_engine));
  // Runs that are cut in the same way are compared rank by rank.
  if (!is_one_engine || golden_shared != target_shared) {
    mapping.golden_layouts = LayoutsOf(golden_run, golden_sizes, golden_shared,
                                       golden_ranks, is_one_engine);
    mapping.target_layouts = LayoutsOf(target_run, target_sizes, target_shared,
                                       target_ranks, is_one_engine);
  }
  return mapping;
}

}  // namespace msitd::match
