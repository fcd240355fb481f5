// SPDX-License-Identifier: Apache-2.0
#include "client/web/row_json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "client/ask/report/page/row_text.h"
#include "client/ask/report/page/shards_text.h"
#include "client/ask/report/schema/row_fields.h"
#include "client/ask/text/policy_text.h"
#include "protos/base/tensor_key.h"

namespace msitd::web {
namespace {

using Json = nlohmann::ordered_json;

Json ValueOf(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return value;
}

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string RowJson(const v1::ComparisonRow& row, const Bounds& bounds) {
  Json out = {{"row", row.row()},
              {"rank", row.rank()},
              {"token", row.token()},
              {"op", row.op()},
              {"call", row.call()},
              {"io", IoName(static_cast<Io>(row.io()))},
              {"index", row.index()},
              {"dtype", ask::DTypesText(row)},
              {"shape", ask::ShapesText(row)},
              {"verdict", ask::WordOf(v1::Verdict_Name(row.verdict()))},
              {"origin", ask::OriginText(row)},
              {"reason", row.reason()},
              {"predicate", row.predicate()},
              {"pairing", ask::PairingText(row)},
              {"ranks", ask::ShardRanksText(row)},
              {"shards", ask::ShardsText(row)},
              {"request", row.request()},
              {"non_finite", ask::NonFiniteFlags(row)},
              {"golden", row.golden().name()},
              {"target", row.target().name()}};
  if (const auto decided = bounds.Decided(row); decided.has_value()) {
    out["decided_by"] = decided->metric;
    out["share"] = ValueOf(decided->share);
  }
  Json metrics = Json::object();
  for (const v1::MetricValue& metric : row.metrics()) {
    metrics[metric.metric()] = ValueOf(metric.value());
  }
  out["metrics"] = std::move(metrics);
  Json custom = Json::object();
  for (const v1::CustomMetric& metric : row.custom_metrics()) {
    custom[metric.metric()] = {
        metric.has_value() ? ValueOf(metric.value()) : Json(), metric.text()};
  }
  out["custom_metrics"] = std::move(custom);
  return Text(out);
}

std::string NumberJson(double value, int digits) {
  if (!std::isfinite(value)) return Text(ValueOf(value));
  return digits == 0 ? fmt::format("{}", value)
                     : fmt::format("{:.{}g}", value, digits);
}

std::string QuotedJson(const std::string& text) { return Text(Json(text)); }

}  // namespace msitd::web
