// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/ask/report/table/sinks.h"

namespace msitd::ask {
namespace {

using Json = nlohmann::ordered_json;

Json JsonOf(const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return nullptr;
  if (const auto* integer = std::get_if<int64_t>(&cell)) return *integer;
  if (const auto* truth = std::get_if<Truth>(&cell)) return truth->value;
  const auto* real = std::get_if<Real>(&cell);
  if (real != nullptr && std::isfinite(real->value)) return real->value;
  return TextOf(cell);
}

class JsonLinesSink final : public TableSink {
 public:
  explicit JsonLinesSink(ReportSink sink) : sink_(std::move(sink)) {}

  absl::Status Begin(const std::vector<std::string>& headings) override {
    headings_ = headings;
    return absl::OkStatus();
  }
  absl::Status Add(const Cells& cells) override {
    Json row = Json::object();
    for (size_t i = 0; i < cells.size(); ++i) {
      row[headings_[i]] = JsonOf(cells[i]);
    }
    return sink_(row.dump(-1, ' ', false, Json::error_handler_t::replace) +
                 '\n');
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const ReportSink sink_;
  std::vector<std::string> headings_;
};

}  // namespace

std::unique_ptr<TableSink> MakeJsonLinesSink(ReportSink sink) {
  return std::make_unique<JsonLinesSink>(std::move(sink));
}

}  // namespace msitd::ask
