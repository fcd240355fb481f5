// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "client/ask/fanout/comparison_names.h"
#include "client/ask/fanout/merge.h"
#include "client/ask/text/maker_text.h"
#include "msitd/v1/merge_rule.pb.h"
#include "protos/base/finding_limits.h"
#include "protos/base/rank_set_message.h"

namespace msitd::ask {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Maximum number of texts that a merged list has.
constexpr int kTextsMax = 64;

auto PlaceOf(const v1::ComparisonRow& row) {
  return std::tuple(row.token(), row.sequence(), row.rank(), row.row());
}

bool IsBefore(const v1::ComparisonRow& a, const v1::ComparisonRow& b) {
  return PlaceOf(a) < PlaceOf(b);
}

// Calls `visit` with each field of a comparison that is merged by one of the
// rules.
template <typename Visit>
void ForEachField(std::initializer_list<v1::MergeRule> rules,
                  const Visit& visit) {
  const google::protobuf::Descriptor& type = *v1::Comparison::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const v1::MergeRule rule = field.options().GetExtension(v1::merge_rule);
    if (std::find(rules.begin(), rules.end(), rule) != rules.end()) {
      visit(field, rule);
    }
  }
}

constexpr std::initializer_list<v1::MergeRule> kRunRules = {
    v1::GOLDEN_RUN, v1::TARGET_RUN, v1::GOLDEN_RANKS, v1::TARGET_RANKS};

void AddCounts(const v1::Comparison& from, v1::Comparison& to) {
  const auto& reflection = *to.GetReflection();
  ForEachField({v1::SUM}, [&](const FieldDescriptor& field, v1::MergeRule) {
    reflection.SetInt64(
        &to, &field,
        reflection.GetInt64(to, &field) + reflection.GetInt64(from, &field));
  });
}

const v1::Comparison& ComparisonOf(const NodeAnswer& part) {
  return static_cast<const v1::Comparison&>(*part.message);
}

int64_t CountIn(const NodeAnswer& part, const FieldDescriptor& count) {
  return part.message->GetReflection()->GetInt64(*part.message, &count);
}

// Merges a count of a run, or of its ranks.
void AddCountOfRun(const std::vector<NodeAnswer>& parts,
                   const FieldDescriptor& count, v1::MergeRule rule,
                   v1::Comparison& out) {
  const bool is_golden = rule == v1::GOLDEN_RUN || rule == v1::GOLDEN_RANKS;
  const bool is_filtered = rule == v1::GOLDEN_RANKS || rule == v1::TARGET_RANKS;
  RankSet counted;
  int64_t sum = 0;
  for (const NodeAnswer& part : parts) {
    const RankSet* const held = is_golden ? part.golden_held : part.target_held;
    const bool is_of_filter =
        is_filtered && !ComparisonOf(part).filter().ranks().empty();
    int64_t mine = CountIn(part, count);
    if (!is_of_filter && held != nullptr && !held->empty()) {
      const double share = static_cast<double>(held->Minus(counted).count()) /
                           static_cast<double>(held->count());
      mine = std::llround(share * static_cast<double>(mine));
      counted = counted.Union(*held);
    }
    sum += mine;
  }
  out.GetReflection()->SetInt64(&out, &count, sum);
}

// Each node may have received other ranks.
void MergeFilterRanks(const std::vector<const v1::Comparison*>& parts,
                      v1::Comparison& out) {
  std::set<int32_t> ranks;
  for (const v1::Comparison* part : parts) {
    // The node uses all ranks that it holds.
    if (part->filter().ranks().empty()) {
      if (out.has_filter()) out.mutable_filter()->clear_ranks();
      return;
    }
    ranks.insert(part->filter().ranks().begin(), part->filter().ranks().end());
  }
  out.mutable_filter()->mutable_ranks()->Assign(ranks.begin(), ranks.end());
}

void AddSilentRanks(const v1::Comparison& from, v1::Comparison& to) {
  for (const v1::SilentRank& silent : from.silent_ranks()) {
    if (to.silent_ranks_size() < int{kSilentRanksMax})
      *to.add_silent_ranks() = silent;
  }
}

// Returns the row of a field with the rule FIRST_ROW.
const v1::ComparisonRow& RowIn(const Message& field) {
  if (field.GetDescriptor() == v1::InputDifference::descriptor()) {
    return static_cast<const v1::InputDifference&>(field).row();
  }
  return static_cast<const v1::ComparisonRow&>(field);
}

void KeepFirsts(const v1::Comparison& from, v1::Comparison& to) {
  const auto& reflection = *to.GetReflection();
  ForEachField(
      {v1::FIRST_ROW}, [&](const FieldDescriptor& field, v1::MergeRule) {
        if (!reflection.HasField(from, &field)) return;
        const Message& first = reflection.GetMessage(from, &field);
        if (!reflection.HasField(to, &field) ||
            IsBefore(RowIn(first), RowIn(reflection.GetMessage(to, &field)))) {
          reflection.MutableMessage(&to, &field)->CopyFrom(first);
        }
      });
}

bool IsKnownMaker(const v1::Maker& maker) {
  return maker.kind() != v1::Maker::DRIFT &&
         maker.kind() != v1::Maker::NOT_KNOWN &&
         maker.kind() != v1::Maker::FLIP;
}

// In the order of a daemon: known makers first, then the largest errors.
bool IsShownBefore(const v1::Maker& a, const v1::Maker& b) {
  return std::tuple(IsKnownMaker(a), a.output_error()) >
         std::tuple(IsKnownMaker(b), b.output_error());
}

// True if both are the same maker, of different ranks.
bool AreAlike(const v1::Maker& a, const v1::Maker& b) {
  return a.kind() != v1::Maker::COPIES && a.kind() == b.kind() &&
         a.op() == b.op() && a.after() == b.after() &&
         a.before() == b.before() && a.row().io() == b.row().io() &&
         a.row().index() == b.row().index() &&
         a.row().call() == b.row().call() && a.row().rank() != b.row().rank();
}

void AddRanks(const v1::Maker& from, v1::Maker& to) {
  std::set<int32_t> ranks(to.ranks().begin(), to.ranks().end());
  ranks.insert(from.ranks().begin(), from.ranks().end());
  ranks.insert(from.row().rank());
  ranks.erase(to.row().rank());
  to.clear_ranks();
  for (const int32_t rank : ranks) {
    if (to.ranks_size() < kAlikeRanksMax) to.add_ranks(rank);
  }
}

// Returns true if the row of a maker shows no dependence on makers of other
// nodes: a weight that differs, or an op whose recorded inputs are equal.
bool IsIndependent(const v1::Maker& maker) {
  if (maker.kind() == v1::Maker::WEIGHT) return true;
  return maker.kind() == v1::Maker::OP && maker.input_error() == 0 &&
         maker.note().find("not on record") == std::string::npos;
}

// The first maker of a node precedes its others. Among several nodes, the one
// with the earliest position is first.
bool Leads(const v1::Maker& a, const v1::Maker& b) {
  if (IsKnownMaker(a) != IsKnownMaker(b)) return IsKnownMaker(a);
  return IsBefore(a.row(), b.row());
}

void AddMaker(const v1::Maker& maker, v1::Comparison& out, int64_t& more) {
  const auto alike = std::find_if(
      out.mutable_makers()->begin(), out.mutable_makers()->end(),
      [&maker](const v1::Maker& other) { return AreAlike(maker, other); });
  if (alike != out.mutable_makers()->end()) {
    AddRanks(maker, *alike);
  } else if (out.makers_size() < kMakersMax) {
    *out.add_makers() = maker;
  } else {
    ++more;
  }
}

// A finding of a node at a later token may be a consequence of another node's
// finding. Nodes cannot compare times, so in addition to the makers of the node
// with the first maker, only independent ones are used. Makers that other nodes
// count without naming them may be consequences of it.
void MergeMakers(const std::vector<const v1::Comparison*>& parts,
                 v1::Comparison& out) {
  const auto token_of = [](const v1::Comparison& part) {
    return part.makers(0).row().token();
  };
  int64_t token = std::numeric_limits<int64_t>::max();
  for (const v1::Comparison* part : parts) {
    if (part->makers_size() > 0) token = std::min(token, token_of(*part));
  }
  const v1::Comparison* first = nullptr;
  for (const v1::Comparison* part : parts) {
    if (part->makers().empty() || token_of(*part) > token) continue;
    if (first == nullptr || Leads(part->makers(0), first->makers(0))) {
      first = part;
    }
  }
  out.clear_first_origin();
  if (first == nullptr) {
    out.set_more_makers_count(0);
    return;
  }
  int64_t more = first->more_makers_count();
  const v1::Maker& lead = first->makers(0);
  std::vector<v1::Maker> makers(std::next(first->makers().begin()),
                                first->makers().end());
  for (const v1::Comparison* part : parts) {
    if (part->makers().empty() || token_of(*part) > token) continue;
    if (part == first) continue;
    for (const v1::Maker& maker : part->makers()) {
      if (IsIndependent(maker) || AreAlike(maker, lead)) {
        makers.push_back(maker);
      }
    }
  }
  std::stable_sort(makers.begin(), makers.end(),
                   [](const v1::Maker& a, const v1::Maker& b) {
                     return IsBefore(a.row(), b.row());
                   });
  std::stable_sort(makers.begin(), makers.end(), IsShownBefore);
  AddMaker(lead, out, more);
  for (const v1::Maker& maker : makers) AddMaker(maker, out, more);
  out.set_more_makers_count(more);
  if (IsKnownMaker(lead)) *out.mutable_first_origin() = lead.row();
}

// If the order of a part is not known, neither is that of the whole. All
// divergences of the first token then have the same rank, and no maker is
// known.
bool RemoveOrder(const std::vector<const v1::Comparison*>& parts,
                 v1::Comparison& out) {
  const auto part = std::find_if_not(
      parts.begin(), parts.end(),
      [](const v1::Comparison* each) { return HasOrder(*each); });
  if (part == parts.end()) return false;
  *out.add_makers() = (*part)->makers(0);
  *out.mutable_makers(0)->mutable_row() = out.first_divergence();
  out.clear_first_origin();
  out.clear_first_inequality();
  auto& rows = *out.mutable_concurrent_divergences();
  rows.erase(std::remove_if(rows.begin(), rows.end(),
                            [&out](const v1::ComparisonRow& row) {
                              return row.token() !=
                                     out.first_divergence().token();
                            }),
             rows.end());
  return true;
}

// The first divergence of all nodes is first. The first divergences of other
// nodes are concurrent, because nodes have no common order.
void MergeDivergences(const std::vector<const v1::Comparison*>& parts,
                      v1::Comparison& out) {
  std::vector<v1::ComparisonRow> rows;
  for (const v1::Comparison* part : parts) {
    if (part->has_first_divergence()) rows.push_back(part->first_divergence());
  }
  std::stable_sort(rows.begin(), rows.end(), IsBefore);
  out.clear_first_divergence();
  out.clear_concurrent_divergences();
  out.clear_makers();
  if (rows.empty()) return;
  *out.mutable_first_divergence() = rows.front();
  for (size_t i = 1; i < rows.size(); ++i) {
    if (out.concurrent_divergences_size() >= kConcurrentMax) break;
    *out.add_concurrent_divergences() = rows[i];
  }
  for (const v1::Comparison* part : parts) {
    for (const v1::ComparisonRow& row : part->concurrent_divergences()) {
      if (out.concurrent_divergences_size() >= kConcurrentMax) break;
      *out.add_concurrent_divergences() = row;
    }
  }
  out.set_more_makers_count(0);
  if (!RemoveOrder(parts, out)) MergeMakers(parts, out);
}

auto BoundOf(const v1::RequiredTolerance& needed) {
  return std::tuple(needed.rule(), std::string_view(needed.predicate()),
                    std::string_view(needed.metric()), needed.at_least(),
                    needed.strict(), needed.negated(),
                    needed.element_tolerance());
}

// A bound that passes on all nodes is the loosest that one of them needs.
bool IsLooser(const v1::RequiredTolerance& a, const v1::RequiredTolerance& b) {
  return a.at_least() ? a.required() < b.required()
                      : a.required() > b.required();
}

void MergeTolerances(const v1::Comparison& from, v1::Comparison& to) {
  for (const v1::RequiredTolerance& added : from.required_tolerances()) {
    const auto found =
        std::find_if(to.mutable_required_tolerances()->begin(),
                     to.mutable_required_tolerances()->end(),
                     [&added](const v1::RequiredTolerance& there) {
                       return BoundOf(there) == BoundOf(added);
                     });
    if (found == to.mutable_required_tolerances()->end()) {
      if (to.required_tolerances_size() < int{kRequiredTolerancesMax}) {
        *to.add_required_tolerances() = added;
      }
      continue;
    }
    const int64_t row_count = found->row_count() + added.row_count();
    if (IsLooser(added, *found)) *found = added;
    found->set_row_count(row_count);
  }
}

void MergeRequired(
    const google::protobuf::RepeatedPtrField<v1::RankRange>& from,
    google::protobuf::RepeatedPtrField<v1::RankRange>& to) {
  const RankSet both = RankSetOf(from).Union(RankSetOf(to));
  to.Clear();
  AppendRanges(both, to);
}

// Each daemon counts the ranks that streamed to it.
void MergeLosses(const v1::RunLosses& from, v1::RunLosses& to) {
  to.set_dropped_count(to.dropped_count() + from.dropped_count());
  to.set_truncated_count(to.truncated_count() + from.truncated_count());
  to.set_incomplete_count(to.incomplete_count() + from.incomplete_count());
  to.set_lost_count(to.lost_count() + from.lost_count());
  to.set_unread_place_count(to.unread_place_count() +
                            from.unread_place_count());
}

// Shares of one run have ids of their own.
void MergeIds(const v1::Comparison& from, v1::Comparison& to) {
  if (from.golden_run_id() != to.golden_run_id()) to.clear_golden_run_id();
  if (from.target_run_id() != to.target_run_id()) to.clear_target_run_id();
}

bool IsPartial(const v1::Comparison& comparison) {
  return comparison.golden_ranks().partial() ||
         comparison.target_ranks().partial() ||
         comparison.has_golden_losses() || comparison.has_target_losses() ||
         comparison.not_compared_count() > 0 ||
         // Another node may hold the missing ranks, but nothing was compared
         // with its data.
         comparison.for_want_of_ranks_count() > 0;
}

// Returns whether a missing record may precede the first divergence. `may_part`
// is the answer for the data of one node; another node may hold records that
// this one lacks.
bool MayDivergeBefore(const v1::Comparison& all, bool may_part) {
  if (!all.has_first_divergence()) return false;
  // The token of a lost record is not known.
  if (all.has_golden_losses() || all.has_target_losses()) return true;
  if (all.has_first_not_compared() &&
      all.first_not_compared().token() <= all.first_divergence().token()) {
    return true;
  }
  const bool lacks_ranks = all.golden_ranks().partial() ||
                           all.target_ranks().partial() ||
                           all.for_want_of_ranks_count() > 0;
  return may_part && lacks_ranks;
}

void MergeRanks(const v1::RunRanks& from, v1::RunRanks& to) {
  const RankSet held =
      RankSetOf(to.ranks_held()).Union(RankSetOf(from.ranks_held()));
  const RankSet lacking = RankSetOf(to.ranks_lacking())
                              .Union(RankSetOf(from.ranks_lacking()))
                              .Minus(held);
  to.Clear();
  AppendRanges(held, *to.mutable_ranks_held());
  AppendRanges(lacking, *to.mutable_ranks_lacking());
  to.set_partial(!lacking.empty());
}

// Returns the state that is furthest from a result.
v1::Comparison::State Worse(v1::Comparison::State a, v1::Comparison::State b) {
  const auto weight = [](v1::Comparison::State state) {
    switch (state) {
      case v1::Comparison::FAILED:
        return 4;
      case v1::Comparison::CANCELLED:
        return 3;
      case v1::Comparison::PENDING:
      case v1::Comparison::RUNNING:
        return 2;
      default:
        return 1;
    }
  };
  return weight(a) >= weight(b) ? a : b;
}

void MergeState(const v1::Comparison& from, v1::Comparison& to) {
  const v1::Comparison::State before = to.state();
  to.set_state(Worse(before, from.state()));
  if (to.state() != before) {
    to.set_error(from.error());
    to.set_error_code(from.error_code());
    to.set_error_reason(from.error_reason());
  }
  if (!from.has_end_time()) {
    to.clear_end_time();
  } else if (to.has_end_time() &&
             std::tuple(from.end_time().seconds(), from.end_time().nanos()) >
                 std::tuple(to.end_time().seconds(), to.end_time().nanos())) {
    *to.mutable_end_time() = from.end_time();
  }
  to.set_waiting_behind_count(
      std::max(to.waiting_behind_count(), from.waiting_behind_count()));
}

void AddTexts(const google::protobuf::RepeatedPtrField<std::string>& from,
              google::protobuf::RepeatedPtrField<std::string>& to) {
  std::set<std::string> known(to.begin(), to.end());
  for (const std::string& text : from) {
    if (to.size() < kTextsMax && known.insert(text).second) *to.Add() = text;
  }
}

// A rule is idle if it is idle on all nodes.
void KeepIdleRules(const v1::Comparison& from, v1::Comparison& to) {
  const std::set<std::string> idle(from.idle_rules().begin(),
                                   from.idle_rules().end());
  std::vector<std::string> kept;
  for (const std::string& rule : to.idle_rules()) {
    if (idle.contains(rule)) kept.push_back(rule);
  }
  to.mutable_idle_rules()->Assign(kept.begin(), kept.end());
}

}  // namespace

bool NeedsHeldRanks(const std::vector<NodeAnswer>& comparisons) {
  bool needed = false;
  ForEachField(kRunRules, [&](const FieldDescriptor& count, v1::MergeRule) {
    const auto counting = std::count_if(
        comparisons.begin(), comparisons.end(),
        [&count](const NodeAnswer& part) { return CountIn(part, count) != 0; });
    needed = needed || counting > 1;
  });
  return needed;
}

void MergeComparisons(const std::vector<NodeAnswer>& parts,
                      v1::Comparison& out) {
  std::vector<const v1::Comparison*> all;
  std::vector<NodeComparison> names;
  for (const NodeAnswer& part : parts) {
    all.push_back(static_cast<const v1::Comparison*>(part.message));
    names.push_back({all.back()->name(), std::string(part.node)});
  }
  out = *all.front();
  for (size_t i = 1; i < all.size(); ++i) {
    const v1::Comparison& from = *all[i];
    AddCounts(from, out);
    KeepFirsts(from, out);
    MergeTolerances(from, out);
    MergeState(from, out);
    MergeRanks(from.golden_ranks(), *out.mutable_golden_ranks());
    MergeRanks(from.target_ranks(), *out.mutable_target_ranks());
    MergeRequired(from.golden_required_ranks(),
                  *out.mutable_golden_required_ranks());
    MergeRequired(from.target_required_ranks(),
                  *out.mutable_target_required_ranks());
    if (from.has_golden_losses()) {
      MergeLosses(from.golden_losses(), *out.mutable_golden_losses());
    }
    if (from.has_target_losses()) {
      MergeLosses(from.target_losses(), *out.mutable_target_losses());
    }
    MergeIds(from, out);
    AddTexts(from.layout_hints(), *out.mutable_layout_hints());
    AddTexts(from.pairing_hints(), *out.mutable_pairing_hints());
    if (out.view_hints().empty()) {
      *out.mutable_view_hints() = from.view_hints();
    }
    AddTexts(from.custom_metrics(), *out.mutable_custom_metrics());
    AddSilentRanks(from, out);
    KeepIdleRules(from, out);
    if (out.first_hopeless_row() < 0) {
      out.set_first_hopeless_row(from.first_hopeless_row());
    }
    out.set_may_diverge_before(out.may_diverge_before() ||
                               from.may_diverge_before());
  }
  ForEachField(kRunRules,
               [&](const FieldDescriptor& count, v1::MergeRule rule) {
                 AddCountOfRun(parts, count, rule, out);
               });
  MergeFilterRanks(all, out);
  MergeDivergences(all, out);
  out.set_partial(IsPartial(out));
  out.set_may_diverge_before(MayDivergeBefore(out, out.may_diverge_before()));
  out.set_name(JoinNames(names));
}

}  // namespace msitd::ask
