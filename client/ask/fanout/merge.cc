// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "client/ask/text/text.h"
#include "google/protobuf/empty.pb.h"
#include "google/protobuf/util/message_differencer.h"
#include "msitd/v1/capture_service.pb.h"
#include "msitd/v1/node_service.pb.h"
#include "msitd/v1/run_service.pb.h"
#include "msitd/v1/tensor_service.pb.h"
#include "protos/base/rank_set_message.h"

namespace msitd::ask {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

template <typename Type>
const Type& As(const NodeAnswer& part) {
  return static_cast<const Type&>(*part.message);
}

// Adds all integers of `from`.
void AddCounts(const Message& from, Message& to) {
  for (int i = 0; i < from.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = from.GetDescriptor()->field(i);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_INT64) continue;
    const auto& reflection = *to.GetReflection();
    reflection.SetInt64(&to, field,
                        reflection.GetInt64(to, field) +
                            from.GetReflection()->GetInt64(from, field));
  }
}

// Ranks that one node holds are not missing, even if other nodes report them as
// missing.
template <typename Answer>
void MergeRanks(const Answer& from, Answer& to) {
  const RankSet held =
      RankSetOf(to.ranks_held()).Union(RankSetOf(from.ranks_held()));
  const RankSet lacking = RankSetOf(to.ranks_lacking())
                              .Union(RankSetOf(from.ranks_lacking()))
                              .Minus(held);
  to.clear_ranks_held();
  to.clear_ranks_lacking();
  AppendRanges(held, *to.mutable_ranks_held());
  AppendRanges(lacking, *to.mutable_ranks_lacking());
  to.set_partial(!lacking.empty());
}

auto TimeOf(const google::protobuf::Timestamp& time) {
  return std::pair(time.seconds(), time.nanos());
}

// A run is archived once all nodes have archived their ranks of it. The state
// is that of the node with the least progress.
void MergeArchive(const v1::Run& from, v1::Run& to) {
  constexpr v1::RunArchive::State kOrder[] = {
      v1::RunArchive::FAILED, v1::RunArchive::STATE_UNSPECIFIED,
      v1::RunArchive::PENDING, v1::RunArchive::RUNNING,
      v1::RunArchive::ARCHIVED};
  const auto rank_of = [&kOrder](const v1::Run& run) {
    return std::find(std::begin(kOrder), std::end(kOrder),
                     run.archive().state()) -
           std::begin(kOrder);
  };
  if (rank_of(to) <= rank_of(from)) return;
  if (from.has_archive()) {
    *to.mutable_archive() = from.archive();
  } else {
    to.clear_archive();
  }
}

void MergeRun(const v1::Run& from, std::string_view node, v1::Run& to,
              std::vector<std::string>& notes) {
  const auto note = [&](std::string_view what) {
    notes.push_back(Printable(fmt::format(
        "the nodes disagree about {} of run {}: {} has another value", what,
        to.name(), node)));
  };
  if (from.world_size() != 0 && to.world_size() != 0 &&
      from.world_size() != to.world_size()) {
    note("the world size");
  }
  to.set_world_size(std::max(to.world_size(), from.world_size()));
  to.set_id(fmt::format("{},{}", to.id(), from.id()));
  for (const auto& [key, value] : from.labels()) {
    const auto [it, is_new] = to.mutable_labels()->insert({key, value});
    if (!is_new && it->second != value) note(fmt::format("label {}", key));
  }
  if (from.retention().SerializeAsString() !=
      to.retention().SerializeAsString()) {
    note("the retention");
  }
  const bool is_sealed =
      to.state() == v1::Run::SEALED && from.state() == v1::Run::SEALED;
  const bool is_restoring =
      to.state() == v1::Run::RESTORING || from.state() == v1::Run::RESTORING;
  to.set_state(is_restoring ? v1::Run::RESTORING
               : is_sealed  ? v1::Run::SEALED
                            : v1::Run::ACTIVE);
  MergeArchive(from, to);
  if (TimeOf(from.create_time()) < TimeOf(to.create_time())) {
    *to.mutable_create_time() = from.create_time();
  }
  if (!is_sealed) {
    to.clear_seal_time();
  } else if (TimeOf(from.seal_time()) > TimeOf(to.seal_time())) {
    *to.mutable_seal_time() = from.seal_time();
  }
  AddCounts(from.counters(), *to.mutable_counters());
  MergeRanks(from, to);
}

void MergeSummary(const v1::Summary& from, v1::Summary& to) {
  AddCounts(from, to);
  if (from.has_min()) {
    to.set_min(to.has_min() ? std::min(to.min(), from.min()) : from.min());
    to.set_max(to.has_max() ? std::max(to.max(), from.max()) : from.max());
    to.set_abs_max(std::max(to.abs_max(), from.abs_max()));
  }
  to.set_sum(to.sum() + from.sum());
  to.set_l1_norm(to.l1_norm() + from.l1_norm());
  // The squares of representable values may overflow.
  to.set_l2_norm(std::hypot(to.l2_norm(), from.l2_norm()));
  const int64_t finite_count = to.count() - to.nan_count() -
                               to.positive_infinity_count() -
                               to.negative_infinity_count();
  if (finite_count > 0) {
    to.set_mean(to.sum() / static_cast<double>(finite_count));
  }
}

void MergeGroups(const v1::SummarizeTensorsResponse& from,
                 v1::SummarizeTensorsResponse& to) {
  MergeRanks(from, to);
  for (const auto& group : from.groups()) {
    const auto found = std::find_if(
        to.mutable_groups()->begin(), to.mutable_groups()->end(),
        [&group](const auto& other) { return other.key() == group.key(); });
    if (found == to.mutable_groups()->end()) {
      *to.add_groups() = group;
      continue;
    }
    // A group without tensors has nothing to merge.
    if (found->tensor_count() == 0) {
      *found = group;
    } else if (group.tensor_count() > 0) {
      AddCounts(group, *found);
      MergeSummary(group.summary(), *found->mutable_summary());
    }
  }
}

// Each daemon counts the policies that it was given.
void MergePolicy(const v1::CapturePolicy& from, std::string_view node,
                 v1::CapturePolicy& to, std::vector<std::string>& notes) {
  v1::CapturePolicy same = from;
  same.set_revision(to.revision());
  if (google::protobuf::util::MessageDifferencer::Equals(same, to)) return;
  const bool begins_alike = from.has_first_token() == to.has_first_token() &&
                            from.first_token() == to.first_token();
  notes.push_back(Printable(fmt::format(
      "the nodes have different capture policies: the policy of {} {}", node,
      begins_alike ? "is different"
      : from.has_first_token()
          ? fmt::format("begins with token {}", from.first_token())
          : "began immediately")));
}

void MergeCoverage(const v1::CaptureCoverage& from, v1::CaptureCoverage& to) {
  MergeRanks(from, to);
  to.mutable_ranks()->MergeFrom(from.ranks());
  std::stable_sort(
      to.mutable_ranks()->begin(), to.mutable_ranks()->end(),
      [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
}

// Ranks and tokens ascend; ops and devices are in the order of their first
// appearance, which only the nodes know.
void SortGroups(v1::SummarizeTensorsResponse& response) {
  const auto is_number = [](const auto& group) {
    return !group.key().empty() &&
           group.key().find_first_not_of("0123456789") == std::string::npos;
  };
  if (!std::all_of(response.groups().begin(), response.groups().end(),
                   is_number)) {
    return;
  }
  std::sort(response.mutable_groups()->begin(),
            response.mutable_groups()->end(), [](const auto& a, const auto& b) {
              return std::pair(a.key().size(), a.key()) <
                     std::pair(b.key().size(), b.key());
            });
}

template <typename Answer>
void SortByRank(std::vector<NodeAnswer>& parts) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const NodeAnswer& a, const NodeAnswer& b) {
                     return RankSetOf(As<Answer>(a).ranks_held()).first() <
                            RankSetOf(As<Answer>(b).ranks_held()).first();
                   });
}

template <typename Key>
int Order(const Key& a, const Key& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

auto KeyOf(const v1::Tensor& tensor) {
  return std::tuple(tensor.rank(), std::string_view(tensor.device()),
                    tensor.token(), std::string_view(tensor.op()),
                    tensor.call(), tensor.io(),
                    std::string_view(tensor.index()));
}

}  // namespace

bool CanMerge(const Descriptor& type) {
  const std::array<const Descriptor*, 12> known = {
      v1::CaptureCoverage::descriptor(),
      v1::CapturePolicy::descriptor(),
      v1::Run::descriptor(),
      v1::ListRunsResponse::descriptor(),
      v1::Tensor::descriptor(),
      v1::ListTensorsResponse::descriptor(),
      v1::SummarizeTensorsResponse::descriptor(),
      v1::FindOriginResponse::descriptor(),
      v1::Capabilities::descriptor(),
      v1::Comparison::descriptor(),
      v1::ListComparisonsResponse::descriptor(),
      v1::ListComparisonRowsResponse::descriptor()};
  return &type == google::protobuf::Empty::descriptor() ||
         std::find(known.begin(), known.end(), &type) != known.end();
}

void Merge(std::vector<NodeAnswer> parts, Message& out,
           std::vector<std::string>& notes) {
  const Descriptor* const type = out.GetDescriptor();
  if (type == v1::Comparison::descriptor()) {
    MergeComparisons(parts, static_cast<v1::Comparison&>(out));
    return;
  }
  if (type == v1::SummarizeTensorsResponse::descriptor()) {
    SortByRank<v1::SummarizeTensorsResponse>(parts);
  } else if (type == v1::Run::descriptor()) {
    SortByRank<v1::Run>(parts);
  }
  out.CopyFrom(*parts.front().message);
  for (size_t i = 1; i < parts.size(); ++i) {
    if (type == v1::Run::descriptor()) {
      MergeRun(As<v1::Run>(parts[i]), parts[i].node, static_cast<v1::Run&>(out),
               notes);
    } else if (type == v1::SummarizeTensorsResponse::descriptor()) {
      MergeGroups(As<v1::SummarizeTensorsResponse>(parts[i]),
                  static_cast<v1::SummarizeTensorsResponse&>(out));
    } else if (type == v1::ListTensorsResponse::descriptor()) {
      const auto& from = As<v1::ListTensorsResponse>(parts[i]);
      auto& to = static_cast<v1::ListTensorsResponse&>(out);
      MergeRanks(from, to);
      to.mutable_tensors()->MergeFrom(from.tensors());
      to.set_incomplete_count(to.incomplete_count() + from.incomplete_count());
    } else if (type == v1::CapturePolicy::descriptor()) {
      MergePolicy(As<v1::CapturePolicy>(parts[i]), parts[i].node,
                  static_cast<v1::CapturePolicy&>(out), notes);
    } else if (type == v1::CaptureCoverage::descriptor()) {
      MergeCoverage(As<v1::CaptureCoverage>(parts[i]),
                    static_cast<v1::CaptureCoverage&>(out));
    } else if (type == v1::ListRunsResponse::descriptor()) {
      static_cast<v1::ListRunsResponse&>(out).mutable_runs()->MergeFrom(
          As<v1::ListRunsResponse>(parts[i]).runs());
    }
  }
  if (type == v1::SummarizeTensorsResponse::descriptor()) {
    SortGroups(static_cast<v1::SummarizeTensorsResponse&>(out));
  }
}

int CompareRows(const Message& a, const Message& b) {
  const Descriptor* const type = a.GetDescriptor();
  if (type == v1::Run::descriptor()) {
    return Order(static_cast<const v1::Run&>(a).name(),
                 static_cast<const v1::Run&>(b).name());
  }
  if (type == v1::Tensor::descriptor()) {
    return Order(KeyOf(static_cast<const v1::Tensor&>(a)),
                 KeyOf(static_cast<const v1::Tensor&>(b)));
  }
  if (type == v1::ComparisonRow::descriptor()) {
    const auto key = [](const Message& message) {
      const auto& row = static_cast<const v1::ComparisonRow&>(message);
      return std::tuple(row.token(), row.rank());
    };
    return Order(key(a), key(b));
  }
  if (type == v1::Comparison::descriptor()) {
    const auto key = [](const Message& message) {
      return TimeOf(static_cast<const v1::Comparison&>(message).create_time());
    };
    return Order(key(a), key(b));
  }
  return 0;
}

bool AreJoined(const Descriptor& row) { return &row == v1::Run::descriptor(); }

}  // namespace msitd::ask
