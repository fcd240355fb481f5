// SPDX-License-Identifier: Apache-2.0
#include "client/web/method_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>

#include "client/ask/fanout/merge.h"
#include "client/ask/query/paging.h"
#include "client/ask/text/text.h"
#include "client/web/row_json.h"

namespace msitd::web {
namespace {

using google::protobuf::Message;

// As for a daemon.
constexpr int64_t kPageRowsDefault = 100;
// Rows of several daemons that one list of the page can have.
constexpr int64_t kNodeRowsMax = 100'000;

template <typename Stub, typename Request, typename Response>
WebMethod MethodOf(std::string_view name,
                   ask::Connection::Method<Stub, Request, Response> method,
                   std::string_view rows = {}) {
  return {name, Request::default_instance(), Response::default_instance(),
          ask::Connection::NodeCallOf(method), rows};
}

std::vector<WebMethod> MakeMethods() {
  using Runs = v1::RunService::Stub;
  using Attachments = v1::AttachmentService::Stub;
  using Tensors = v1::TensorService::Stub;
  using Comparisons = v1::ComparisonService::Stub;
  using Captures = v1::CaptureService::Stub;
  using Node = v1::NodeService::Stub;
  return {
      MethodOf("AttachmentService.ListAttachments",
               &Attachments::ListAttachments, "attachments"),
      MethodOf("CaptureService.GetCaptureCoverage",
               &Captures::GetCaptureCoverage),
      MethodOf("CaptureService.GetCapturePolicy", &Captures::GetCapturePolicy),
      MethodOf("CaptureService.SetCapturePolicy", &Captures::SetCapturePolicy),
      MethodOf("ComparisonService.CancelComparison",
               &Comparisons::CancelComparison),
      MethodOf("ComparisonService.CreateComparison",
               &Comparisons::CreateComparison),
      MethodOf("ComparisonService.GetComparison", &Comparisons::GetComparison),
      MethodOf("ComparisonService.ListComparisonRows",
               &Comparisons::ListComparisonRows, "rows"),
      MethodOf("ComparisonService.ListComparisons",
               &Comparisons::ListComparisons, "comparisons"),
      MethodOf("ComparisonService.SummarizeComparisonRows",
               &Comparisons::SummarizeComparisonRows),
      MethodOf("NodeService.GetCapabilities", &Node::GetCapabilities),
      MethodOf("NodeService.GetNodeStatus", &Node::GetNodeStatus),
      MethodOf("NodeService.ListStreams", &Node::ListStreams, "streams"),
      MethodOf("RunService.GetRun", &Runs::GetRun),
      MethodOf("RunService.ListRuns", &Runs::ListRuns, "runs"),
      MethodOf("TensorService.ComputeHistogram", &Tensors::ComputeHistogram),
      MethodOf("TensorService.FindOrigin", &Tensors::FindOrigin),
      MethodOf("TensorService.GetTensor", &Tensors::GetTensor),
      MethodOf("TensorService.ListTensors", &Tensors::ListTensors, "tensors"),
      MethodOf("TensorService.SummarizeTensors", &Tensors::SummarizeTensors),
  };
}

ask::Outcome BadField(std::string_view name, std::string_view why) {
  return ask::DaemonError(grpc::StatusCode::INVALID_ARGUMENT, "",
                          std::string(name) + ": " + std::string(why));
}

// Lists rows of several daemons: see CallWebMethod.
ask::Outcome ListRowsOfNodes(ask::Fanout& fanout, const WebMethod& method,
                             const Message& request, Message& response,
                             RowNodes& row_nodes) {
  const auto* const type = request.GetDescriptor();
  const auto* const size_field = type->FindFieldByName("page_size");
  const auto* const token_field = type->FindFieldByName("page_token");
  const auto& reflection = *request.GetReflection();
  if (!row_nodes.only.empty() && !fanout.HasNode(row_nodes.only)) {
    return ask::DaemonError(
        grpc::StatusCode::NOT_FOUND, "",
        fmt::format("{} is not one of the daemons that this page shows",
                    ask::Printable(row_nodes.only)));
  }
  int64_t page_size = reflection.GetInt32(request, size_field);
  if (page_size < 0) return BadField("page_size", "it is negative");
  if (page_size == 0) page_size = kPageRowsDefault;
  page_size = std::min(page_size, ask::kPageRowsMax);
  const std::string token = reflection.GetString(request, token_field);
  int64_t skipped_count = 0;
  const char* const end = token.data() + token.size();
  const auto [stop, error] = std::from_chars(token.data(), end, skipped_count);
  if (!token.empty() && (error != std::errc() || stop != end ||
                         skipped_count < 0 || skipped_count > kNodeRowsMax)) {
    return BadField("page_token", "it belongs to no page");
  }
  const std::unique_ptr<Message> first(request.New());
  first->CopyFrom(request);
  first->GetReflection()->ClearField(first.get(), token_field);
  const auto* const rows =
      response.GetDescriptor()->FindFieldByName(std::string(method.rows));
  std::vector<std::unique_ptr<Message>> page;
  int64_t count = 0;
  bool has_more = false;
  const bool has_nodes = !ask::AreJoined(*rows->message_type());
  const auto take = [&](const Message& row) {
    if (!row_nodes.only.empty() && row_nodes.only != fanout.row_node()) {
      return true;
    }
    if (count++ < skipped_count) return true;
    if (static_cast<int64_t>(page.size()) == page_size) {
      has_more = true;
      return false;
    }
    page.emplace_back(row.New())->CopyFrom(row);
    if (has_nodes) row_nodes.nodes.push_back(fanout.row_node());
    return true;
  };
  MSITCTL_RETURN_IF_FAILED(fanout.ForEachRow(
      {.call = method.call,
       .request = *first,
       .field = std::string(method.rows),
       .limit = row_nodes.only.empty() ? skipped_count + page_size + 1 : 0,
       .take = take,
       .see = [](const Message& /*page*/) {}},
      response));
  const auto& answer = *response.GetReflection();
  answer.ClearField(&response, rows);
  for (const auto& row : page) {
    answer.AddMessage(&response, rows)->CopyFrom(*row);
  }
  answer.SetString(&response,
                   response.GetDescriptor()->FindFieldByName("next_page_token"),
                   has_more ? std::to_string(skipped_count + page_size) : "");
  return {};
}

}  // namespace

const std::vector<WebMethod>& WebMethods() {
  static const auto* const methods = new std::vector<WebMethod>(MakeMethods());
  return *methods;
}

const WebMethod* FindWebMethod(std::string_view name) {
  const auto& methods = WebMethods();
  const auto found =
      std::find_if(methods.begin(), methods.end(),
                   [name](const WebMethod& m) { return m.name == name; });
  return found == methods.end() ? nullptr : &*found;
}

std::string CalledMethods() {
  // The page does not call these itself: page.stream, page.values and
  // page.logits do.
  std::set<std::string_view> names = {"ComparisonService.StreamComparisonRows",
                                      "TensorService.ReadTensor"};
  for (const WebMethod& method : WebMethods()) names.insert(method.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void RowNodes::AppendTo(std::string& json) const {
  if (nodes.empty()) return;
  std::vector<std::string> texts;
  for (const std::string& node : nodes) texts.push_back(QuotedJson(node));
  json += fmt::format(",\"row_nodes\":[{}]", fmt::join(texts, ","));
}

ask::Outcome CallWebMethod(ask::Connection& connection, const WebMethod& method,
                           const Message& request, Message& response,
                           RowNodes& row_nodes) {
  if (connection.fanout() == nullptr) {
    return method.call(connection, request, response);
  }
  if (method.rows.empty()) {
    return connection.fanout()->Ask(method.call, request, response);
  }
  return ListRowsOfNodes(*connection.fanout(), method, request, response,
                         row_nodes);
}

}  // namespace msitd::web
