// SPDX-License-Identifier: Apache-2.0
#include "client/web/summary_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "client/web/row_json.h"

namespace msitd::web {
namespace {

using google::protobuf::FieldDescriptor;

std::string ValueText(const v1::Summary& summary,
                      const FieldDescriptor& field) {
  const auto& reflection = *summary.GetReflection();
  if (field.has_presence() && !reflection.HasField(summary, &field)) {
    return "null";
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    return std::to_string(reflection.GetInt64(summary, &field));
  }
  return NumberJson(reflection.GetDouble(summary, &field));
}

}  // namespace

ask::Outcome ParseSummaryRequest(const std::string& text, SummaryRequest& out) {
  auto body = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return ask::UsageError("the body is not an object");
  const auto value = body.find("value");
  if (value == body.end() || !value->is_string() ||
      v1::Summary::descriptor()->FindFieldByName(value->get<std::string>()) ==
          nullptr) {
    return ask::UsageError("value: a field of Summary is required");
  }
  out.value = value->get<std::string>();
  body.erase(value);
  const auto status =
      google::protobuf::util::JsonStringToMessage(body.dump(), &out.request);
  if (status.ok()) return {};
  return ask::UsageError("the body is not a SummarizeTensorsRequest: " +
                         status.ToString());
}

ask::Outcome SummariesPage(ask::Connection& connection,
                           const SummaryRequest& request, std::string& json) {
  v1::SummarizeTensorsResponse response;
  MSITCTL_RETURN_IF_FAILED(connection.Ask(
      &v1::TensorService::Stub::SummarizeTensors, request.request, response));
  const FieldDescriptor& field =
      *v1::Summary::descriptor()->FindFieldByName(request.value);
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (const auto& group : response.groups()) {
    keys.push_back(QuotedJson(group.key()));
    values.push_back(ValueText(group.summary(), field));
  }
  std::vector<std::string> lacking;
  for (const v1::RankRange& range : response.ranks_lacking()) {
    lacking.push_back(fmt::format("[{},{}]", range.first(), range.last()));
  }
  json = fmt::format(R"({{"keys":[{}],"values":[{}],"ranks_lacking":[{}]}})",
                     fmt::join(keys, ","), fmt::join(values, ","),
                     fmt::join(lacking, ","));
  return {};
}

}  // namespace msitd::web
