// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/tensor/ordered_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "client/ask/fanout/node_fanout.h"
#include "client/ask/query/paging.h"

namespace msitd::msitctl {
namespace {

struct OrderedTensor {
  v1::Tensor tensor;
  std::string node;  // The node that has it, if there are several daemons.
};

bool IsBefore(const OrderedTensor& a, const OrderedTensor& b) {
  return IsExecutedBefore(a.tensor, b.tensor);
}

// The first ones of all tensors that were added. Thread-compatible.
class FirstTensors {
 public:
  explicit FirstTensors(size_t count_max) : count_max_(count_max) {}

  void Add(const v1::Tensor& tensor, std::string_view node) {
    ++seen_count_;
    const bool is_full = heap_.size() == count_max_;
    if (is_full && !IsExecutedBefore(tensor, heap_.front().tensor)) return;
    if (is_full) {
      std::pop_heap(heap_.begin(), heap_.end(), IsBefore);
      heap_.pop_back();
    }
    heap_.push_back({tensor, std::string(node)});
    std::push_heap(heap_.begin(), heap_.end(), IsBefore);
  }

  bool is_full() const { return heap_.size() == count_max_; }
  int64_t seen_count() const { return seen_count_; }
  // Returns the highest token of the kept tensors, of which there must be at
  // least one.
  int64_t last_token() const { return heap_.front().tensor.token(); }

  std::vector<OrderedTensor> Sorted() && {
    std::sort_heap(heap_.begin(), heap_.end(), IsBefore);
    return std::move(heap_);
  }

 private:
  const size_t count_max_;
  int64_t seen_count_ = 0;
  std::vector<OrderedTensor> heap_;  // The last one is at the top.
};

std::string_view RowNode(Invocation& invocation) {
  ask::NodeFanout* const fanout = invocation.node_fanout();
  return fanout == nullptr ? std::string_view() : fanout->row_node();
}

// Returns `request` without the tokens after the one at which the limit is
// reached, because none of their tensors can be among the first.
ask::Outcome LeaveOutLaterTokens(Invocation& invocation, int64_t limit,
                                 v1::ListTensorsRequest& request) {
  FirstTensors some(static_cast<size_t>(limit));
  v1::ListTensorsResponse response;
  MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
      invocation, &v1::TensorService::Stub::ListTensors, request, "tensors",
      limit,
      [&](const google::protobuf::Message& row) {
        some.Add(static_cast<const v1::Tensor&>(row), "");
      },
      response));
  if (some.is_full()) {
    *request.mutable_filter() = UpToToken(request.filter(), some.last_token());
  }
  return {};
}

}  // namespace

bool IsExecutedBefore(const v1::Tensor& a, const v1::Tensor& b) {
  const auto key = [](const v1::Tensor& tensor) {
    return std::tuple(tensor.token(), tensor.sequence(), tensor.rank(),
                      std::string_view(tensor.name()));
  };
  return key(a) < key(b);
}

v1::TensorFilter UpToToken(v1::TensorFilter filter, int64_t last) {
  if (filter.tokens().empty()) {
    filter.add_tokens()->set_last(last);
    return filter;
  }
  auto& tokens = *filter.mutable_tokens();
  for (v1::TokenRange& range : tokens) {
    range.set_last(std::min(range.last(), last));
  }
  tokens.erase(std::remove_if(tokens.begin(), tokens.end(),
                              [](const v1::TokenRange& range) {
                                return range.last() < range.first();
                              }),
               tokens.end());
  return filter;
}

ask::Outcome PrintInExecutionOrder(Invocation& invocation,
                                   ask::ListLayout layout,
                                   const ListFlags& flags,
                                   v1::ListTensorsRequest request,
                                   const std::function<void()>& when_empty) {
  layout.response = v1::ListTensorsResponse::descriptor();
  AddNodeColumn(invocation, layout);
  std::string node;
  if (const auto column = layout.computed.find("node");
      column != layout.computed.end()) {
    column->second = [&node](const google::protobuf::Message&) { return node; };
  }
  std::unique_ptr<ask::ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer, ask::ListPrinter::Create(std::move(layout),
                                        invocation.print_options(flags.columns),
                                        invocation.out()));
  const bool is_limited = flags.limit != 0 && flags.limit < kOrderedTensorsMax;
  if (is_limited) {
    MSITCTL_RETURN_IF_FAILED(
        LeaveOutLaterTokens(invocation, flags.limit, request));
  }
  FirstTensors first(
      static_cast<size_t>(is_limited ? flags.limit : kOrderedTensorsMax));
  PartialNotice partial(invocation);
  int64_t incomplete_count = 0;
  v1::ListTensorsResponse response;
  MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
      invocation, &v1::TensorService::Stub::ListTensors, request, "tensors", 0,
      [&](const google::protobuf::Message& row) {
        first.Add(static_cast<const v1::Tensor&>(row), RowNode(invocation));
      },
      response,
      [&](const v1::ListTensorsResponse& page) {
        partial.See(request.run(), page);
        incomplete_count += page.incomplete_count();
      }));
  const int64_t seen_count = first.seen_count();
  const std::vector<OrderedTensor> entries = std::move(first).Sorted();
  for (const OrderedTensor& entry : entries) {
    node = entry.node;
    printer->Add(entry.tensor);
  }
  printer->Finish(response);
  NoteIncomplete(incomplete_count);
  MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
  const bool is_cut = !is_limited && seen_count > std::ssize(entries) &&
                      (flags.limit == 0 || flags.limit > std::ssize(entries));
  if (is_cut) {
    fmt::print(stderr,
               "msitctl: note: the first {} of {} tensors are listed, the "
               "maximum that can be sorted; to list all: --order key\n",
               entries.size(), seen_count);
  }
  if (entries.empty() && when_empty) when_empty();
  ask::Outcome outcome = partial.End(flags.allow_partial);
  if (outcome.ok() && is_cut) outcome.exit_code = ask::kExitPartial;
  return outcome;
}

}  // namespace msitd::msitctl
