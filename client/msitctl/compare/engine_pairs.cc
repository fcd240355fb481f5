// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/engine_pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <string>
#include <vector>

#include "client/ask/text/text.h"
#include "client/foreign/fill/run_matcher.h"
#include "protos/base/tensor_key.h"

namespace msitd::msitctl {
namespace {

using Kind = match::ShardLayout::Kind;

// Returns a layout as the value of its flag.
std::string TextOfLayout(const match::ShardLayout& layout) {
  std::string out = layout.op_pattern;
  if (layout.io != Io::kUnspecified)
    out += fmt::format("@{}", IoName(layout.io));
  if (layout.index.has_value()) out += fmt::format("/{}", *layout.index);
  switch (layout.kind) {
    case Kind::kConcat:
      out += layout.sections.empty()
                 ? fmt::format("=concat({})", layout.dim)
                 : fmt::format("=concat({},{})", layout.dim,
                               fmt::join(layout.sections, ":"));
      break;
    case Kind::kSum:
      out += "=sum";
      break;
    case Kind::kReplicated:
      out += "=replicated";
      break;
    case Kind::kFit:
      out += "=fit";
      break;
  }
  if (layout.group_size > 0) out += fmt::format("/{}", layout.group_size);
  if (layout.unless_placed) out += " unless placed";
  return out;
}

void FillLayout(const match::ShardLayout& layout, v1::Layout& out) {
  out.set_op_pattern(layout.op_pattern);
  out.set_io(static_cast<v1::Io>(layout.io));
  if (layout.index.has_value()) out.set_index(*layout.index);
  out.set_kind(layout.kind == Kind::kConcat ? v1::Layout::CONCAT
               : layout.kind == Kind::kSum  ? v1::Layout::SUM
               : layout.kind == Kind::kFit  ? v1::Layout::FIT
                                            : v1::Layout::REPLICATED);
  out.set_dim(layout.dim);
  out.set_group_size(layout.group_size);
  for (const int section : layout.sections) out.add_sections(section);
  out.set_unless_placed(layout.unless_placed);
}

void AddLayouts(const match::Mapping& mapping, v1::Matching& matching) {
  std::string flags;
  for (const bool is_golden : {true, false}) {
    for (match::ShardLayout layout :
         is_golden ? mapping.golden_layouts : mapping.target_layouts) {
      // Sizes say nothing if the rows differ.
      if (matching.by_request() && layout.kind == Kind::kFit) {
        layout.kind = Kind::kReplicated;
      }
      FillLayout(layout, is_golden ? *matching.add_golden_layouts()
                                   : *matching.add_target_layouts());
      flags +=
          fmt::format("\n  --{}-layout '{}'", is_golden ? "golden" : "target",
                      ask::Printable(TextOfLayout(layout)));
    }
  }
  if (flags.empty()) return;
  fmt::print(stderr,
             "msitctl: note: several ranks share each layer; their shards are "
             "put together as by{}\n",
             flags);
}

ask::Outcome ChooseRows(Invocation& invocation, const CompareFlags& flags,
                        const match::Mapping& mapping,
                        v1::Comparison& comparison) {
  const bool may_join_requests = !comparison.matching().by_request() &&
                                 comparison.matching().token_offset() == 0 &&
                                 !flags.follow;
  bool has_requests =
      mapping.rows == match::RowRelation::kDifferent && may_join_requests;
  for (const std::string* const run :
       {&comparison.golden_run(), &comparison.target_run()}) {
    if (!has_requests) break;
    MSITCTL_RETURN_IF_FAILED(
        fill::FindRequests(invocation, *run, has_requests));
  }
  if (has_requests) {
    comparison.mutable_matching()->set_by_request(true);
    fmt::print(stderr,
               "msitctl: note: the runs have different batches. Rows of equal "
               "requests and positions are compared, as by --by request\n");
    return {};
  }
  const bool only_ones =
      mapping.rows == match::RowRelation::kSqueezed ||
      (mapping.rows == match::RowRelation::kDifferent && !may_join_requests);
  if (only_ones &&
      comparison.policy().shape_rule() == v1::Policy::SHAPE_RULE_UNSPECIFIED) {
    comparison.mutable_policy()->set_shape_rule(v1::Policy::SQUEEZE);
    fmt::print(stderr,
               "msitctl: note: one run has a dimension of length 1 for the "
               "batch, which is ignored, as by --shapes squeeze\n");
  }
  return {};
}

}  // namespace

ask::Outcome RelyOnMapping(Invocation& invocation, const CompareFlags& flags,
                           const match::Mapping& mapping, bool has_ranks,
                           ExecutionPlan& plan) {
  v1::Comparison& comparison = *plan.request.mutable_comparison();
  MSITCTL_RETURN_IF_FAILED(ChooseRows(invocation, flags, mapping, comparison));
  if (!has_ranks) AddLayouts(mapping, *comparison.mutable_matching());
  return {};
}

}  // namespace msitd::msitctl
