// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/origin_convert.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "daemon/compare/job/run_ranks_message.h"
#include "daemon/service/proto_convert.h"
#include "daemon/service/tensor_condition.h"
#include "protos/base/rank_set.h"
#include "protos/base/rank_set_message.h"
#include "protos/base/resource_name.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

using origin::OriginAnswer;

// The condition of a request without one. Users can also write it.
constexpr std::string_view kNotFinite = "nan_count > 0 or inf_count > 0";

v1::RunOrigin::Kind KindOf(origin::OriginKind kind) {
  switch (kind) {
    case origin::OriginKind::kOp:
      return v1::RunOrigin::OP;
    case origin::OriginKind::kCode:
      return v1::RunOrigin::CODE;
    case origin::OriginKind::kInput:
      return v1::RunOrigin::INPUT;
    case origin::OriginKind::kWeight:
      return v1::RunOrigin::WEIGHT;
    case origin::OriginKind::kState:
      return v1::RunOrigin::STATE;
  }
  return v1::RunOrigin::KIND_UNSPECIFIED;
}

v1::FindOriginResponse::Result ResultOf(OriginAnswer::Result result) {
  switch (result) {
    case OriginAnswer::Result::kNone:
      return v1::FindOriginResponse::NONE;
    case OriginAnswer::Result::kFound:
      return v1::FindOriginResponse::FOUND;
    case OriginAnswer::Result::kNotKnown:
      return v1::FindOriginResponse::NOT_KNOWN;
  }
  return v1::FindOriginResponse::RESULT_UNSPECIFIED;
}

void SetOrigin(const origin::FoundOrigin& found, const std::string& run,
               v1::RunOrigin& out) {
  const origin::RankOrigin& origin = found.origin;
  out.set_kind(KindOf(origin.kind));
  out.set_op(origin.op);
  out.set_after(origin.after);
  out.set_before(origin.before);
  ToProto(origin.tensor, *out.mutable_tensor());
  for (const query::TokenRequest& request : found.requests) {
    v1::TokenRequest& added = *out.mutable_tensor()->add_requests();
    added.set_id(request.id);
    added.set_rows(request.rows);
  }
  AppendRanges(RankSet::Of(found.ranks), *out.mutable_ranks(), kRankRangesMax);
  for (const std::string& gap : origin.gaps) out.add_gaps(gap);
  for (const std::string& note : origin.notes) out.add_notes(note);
  for (const TensorKey& key : found.chain) {
    out.add_chain(FormatTensorName(run, key));
  }
  out.set_omitted_count(found.omitted_count);
  out.set_omitted_after(static_cast<int32_t>(found.omitted_after));
}

}  // namespace

absl::StatusOr<origin::Condition> ToCondition(
    const v1::FindOriginRequest& request) {
  origin::Condition out;
  out.is_strict = request.strict();
  const std::string& where = request.where();
  MSITD_ASSIGN_OR_RETURN(TensorCondition not_finite,
                         TensorCondition::Parse(kNotFinite));
  MSITD_ASSIGN_OR_RETURN(
      TensorCondition condition,
      where.empty() ? not_finite : TensorCondition::Parse(where));
  out.is_not_finite = condition == not_finite;
  out.holds = [condition =
                   std::move(condition)](const storage::TensorInfo& tensor) {
    return condition.Evaluate(tensor);
  };
  return out;
}

void ToProto(const OriginAnswer& answer, const std::string& run,
             v1::FindOriginResponse& out) {
  out.set_result(ResultOf(answer.result));
  for (const origin::FoundOrigin& found : answer.origins) {
    SetOrigin(found, run, *out.add_origins());
  }
  for (const origin::FoundOrigin& found : answer.unknown) {
    SetOrigin(found, run, *out.add_unknown());
  }
  out.set_omitted_origin_count(static_cast<int64_t>(answer.omitted_count));
  for (const origin::ReachedRank& reached : answer.reached) {
    v1::FindOriginResponse::ReachedRank& added = *out.add_reached();
    added.set_rank(reached.rank);
    added.set_token(reached.token);
    added.set_tensor(reached.tensor);
  }
  out.set_reached_count(static_cast<int64_t>(answer.reached_count));
  for (size_t i = 0; i < answer.ignored.size(); ++i) {
    if (answer.ignored[i].count == 0) continue;
    v1::FindOriginResponse::Ignored& added = *out.add_ignored();
    added.set_rule(
        std::string(origin::TextOf(static_cast<origin::IgnoreRule>(i))));
    added.set_count(static_cast<int64_t>(answer.ignored[i].count));
    added.set_example(FormatTensorName(run, answer.ignored[i].first));
  }
  out.set_tensor_count(static_cast<int64_t>(answer.tensor_count));
  out.set_satisfying_count(static_cast<int64_t>(answer.symptom_count));
  out.set_unknown_count(static_cast<int64_t>(answer.unknown_count));
  out.set_incomplete_count(static_cast<int64_t>(answer.incomplete_count));
  out.set_lost_count(static_cast<int64_t>(answer.lost_count));
  compare::ToMessage(answer.ranks, out);
}

}  // namespace msitd::service
