// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/statistics_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "client/ask/report/schema/row_fields.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/msit/compare/file_index.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msit_command {
namespace {

constexpr std::string_view kIdentity[] = {"token_id",         "data_id",
                                          "golden_data_path", "golden_op_type",
                                          "my_data_path",     "my_op_type"};

constexpr char kStatisticsFile[] = "statistics.csv";

// In the order of the columns, with their names.
constexpr std::array<std::string_view, 4> kStatistics = {"max", "min", "mean",
                                                         "l2norm"};
// In the order of kStatistics; NaN if a number is missing.
using Numbers = std::array<float, kStatistics.size()>;

Numbers StatisticsOf(const v1::ComparedTensor& side) {
  const auto single = [](bool has, double value) {
    return has ? static_cast<float>(value) : NAN;
  };
  Numbers out = {single(side.has_max(), side.max()),
                 single(side.has_min(), side.min()),
                 single(side.has_mean(), side.mean()),
                 single(side.has_l2_norm(), side.l2_norm())};
  // For a tensor, these statistics cover only elements that are not NaN, or
  // finite.
  if (side.kind() == v1::RECORD_KIND_STATISTICS) return out;
  if (side.nan_count() > 0) return {NAN, NAN, NAN, NAN};
  if (side.infinity_count() > 0) {
    out[2] = static_cast<float>(ask::MeanOf(side));
    out[3] = INFINITY;
  }
  return out;
}

// Returns the shortest decimal that is parsed as `value` in float32.
ask::Cell Single(float value) {
  if (std::isnan(value)) return {};
  return ask::Real{std::strtod(fmt::format("{}", value).c_str(), nullptr),
                   ask::RealStyle::kPython};
}

ask::Cell Text(std::string text) {
  return text.empty() ? ask::Cell() : ask::Cell(std::move(text));
}

class StatisticsSchema final : public ask::TableSchema {
 public:
  StatisticsSchema(bool is_compat, report::MsitSides sides)
      : is_compat_(is_compat), sides_(std::move(sides)) {}

  std::vector<std::string> Begin(const v1::Comparison&) override {
    std::vector<std::string> headings(std::begin(kIdentity),
                                      std::end(kIdentity));
    for (const std::string_view name : kStatistics) {
      headings.push_back(fmt::format("{}_stat_absolute_error", name));
      headings.push_back(fmt::format("{}_stat_relative_error", name));
    }
    return headings;
  }

  absl::Status Add(const v1::ComparisonRow& row,
                   ask::TableSink& table) override {
    if (!row.has_golden() || !row.has_target()) return absl::OkStatus();
    const int64_t data_id = next_id_++;
    const Numbers golden = StatisticsOf(row.golden());
    const Numbers my = StatisticsOf(row.target());
    const auto is_finite = [](float x) { return std::isfinite(x); };
    if (is_compat_ && !(std::all_of(golden.begin(), golden.end(), is_finite) &&
                        std::all_of(my.begin(), my.end(), is_finite))) {
      return absl::OkStatus();
    }
    ask::Cells cells = {fmt::format("{}", row.token()), data_id};
    for (const bool is_golden : {true, false}) {
      report::MsitSide side =
          sides_(is_golden ? row.golden() : row.target(), is_golden);
      cells.emplace_back(std::move(side.path));
      cells.push_back(Text(std::move(side.op_type)));
    }
    for (size_t i = 0; i < golden.size(); ++i) {
      const float error = std::fabs(my[i] - golden[i]);
      cells.push_back(Single(error));
      cells.push_back(
          Single(error / std::max(std::fabs(golden[i]), FLT_EPSILON)));
    }
    return table.Add(cells);
  }

  absl::StatusOr<std::string> Finish(ask::TableSink& /*table*/) override {
    return "";
  }

 private:
  const bool is_compat_;
  const report::MsitSides sides_;
  int64_t next_id_ = 0;
};

}  // namespace

std::unique_ptr<ask::TableSchema> MakeStatisticsSchema(bool is_compat,
                                                       StatisticsSides sides) {
  return std::make_unique<StatisticsSchema>(is_compat, std::move(sides));
}

std::string StatisticsPath(const DumpSide& side, const TensorKey& key,
                           bool is_compat) {
  const std::string file =
      fmt::format("{}/{}/{}/{}", side.process, side.token.value_or(key.token),
                  key.op, kStatisticsFile);
  return is_compat ? file : MsitPath({file, /*is_shared=*/true}, key);
}

}  // namespace msitd::msit_command
