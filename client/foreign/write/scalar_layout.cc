// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/scalar_layout.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/foreign/write/file_name.h"
#include "client/foreign/write/writer/event_file.h"
#include "protos/base/tensor_key.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

// Returns the number that the value of a record states, if it is one.
std::optional<double> NumberOf(const std::string& text) {
  if (text == "True" || text == "False") return text == "True" ? 1 : 0;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

// Returns the element of a tensor that has one.
double OnlyElement(const v1::Summary& summary) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (summary.positive_infinity_count() > 0) return kInfinity;
  if (summary.negative_infinity_count() > 0) return -kInfinity;
  return summary.has_mean() ? summary.mean()
                            : std::numeric_limits<double>::quiet_NaN();
}

class ScalarLayout final : public Layout {
 public:
  explicit ScalarLayout(ExportContext& context)
      : context_(context),
        time_s_(static_cast<double>(context.run().create_time().seconds())) {}

  bool is_grouped() const override { return false; }

  absl::Status Add(const v1::Tensor& record) override {
    // The list is ordered by rank, device and token.
    if (file_ == nullptr || record.rank() != rank_ ||
        record.device() != device_) {
      MSITD_RETURN_IF_ERROR(BeginDevice(record));
    }
    scalars_.clear();
    if (record.kind() == v1::RECORD_KIND_NUMBER) {
      const auto number = NumberOf(record.value());
      if (number.has_value()) AddScalar(record, "value", *number);
    } else if (record.has_summary()) {
      AddSummary(record);
    }
    if (scalars_.empty()) {
      context_.AddProblem(record, "it has no number that could be drawn");
      return absl::OkStatus();
    }
    MSITD_RETURN_IF_ERROR(
        file_->Write(EventRecord(time_s_, record.token(), scalars_)));
    context_.Count(record, /*with_bytes=*/false);
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (file_ == nullptr) return absl::OkStatus();
    const auto file = std::move(file_);
    return context_.Commit(*file);
  }

 private:
  // Further devices of a rank are runs of their own in TensorBoard, because
  // tags do not name the device.
  absl::Status BeginDevice(const v1::Tensor& record) {
    MSITD_RETURN_IF_ERROR(Finish());
    const bool is_first = record.rank() != rank_;
    rank_ = record.rank();
    device_ = record.device();
    MSITD_ASSIGN_OR_RETURN(
        file_, context_.folder().Create(fmt::format(
                   "rank{}{}/{}", record.rank(),
                   is_first ? "" : "." + FileName({device_}, ""),
                   EventFileName(context_.run().create_time().seconds()))));
    return file_->Write(EventFileStart(time_s_));
  }

  void AddScalar(const v1::Tensor& record, std::string_view name,
                 double value) {
    std::string place(IoName(static_cast<Io>(record.io())));
    if (!record.index().empty()) place += " " + record.index();
    if (record.call() > 0) place += fmt::format(" call {}", record.call());
    scalars_.push_back({fmt::format("{}/{}/{}", record.op(), place, name),
                        static_cast<float>(value)});
  }

  void AddSummary(const v1::Tensor& record) {
    const v1::Summary& summary = record.summary();
    if (summary.count() == 1) {
      AddScalar(record, "value", OnlyElement(summary));
      return;
    }
    AddScalar(record, "l2_norm", summary.l2_norm());
    if (summary.has_mean()) AddScalar(record, "mean", summary.mean());
    if (summary.has_min()) AddScalar(record, "min", summary.min());
    if (summary.has_max()) AddScalar(record, "max", summary.max());
    AddScalar(record, "nan_count", static_cast<double>(summary.nan_count()));
    AddScalar(record, "infinity_count",
              static_cast<double>(summary.positive_infinity_count() +
                                  summary.negative_infinity_count()));
  }

  ExportContext& context_;
  const double time_s_;
  std::optional<int32_t> rank_;
  std::string device_;
  std::unique_ptr<OutputFile> file_;
  std::vector<Scalar> scalars_;
};

}  // namespace

std::unique_ptr<Layout> MakeScalarLayout(ExportContext& context) {
  return std::make_unique<ScalarLayout>(context);
}

}  // namespace msitd::write
