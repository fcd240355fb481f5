// SPDX-License-Identifier: Apache-2.0
#include "client/msit/pair/logits_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ask/report/table/cell.h"
#include "client/ask/text/text.h"
#include "client/msit/pair/logits_name.h"
#include "client/msit/pair/pair_comparison.h"
#include "client/msit/table/output_file.h"
#include "client/msit/tensor/tensor.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr char kExtension[] = ".pth";
constexpr char kNothing[] = "NA";

struct Row {
  std::string file;
  LogitsName name;
  bool has_name = false;
  std::string reason;  // Empty if the following members are set.
  double cosine = 0;
  double kl = 0;
  ask::Cell l1;
  double l1_value = 0;
  double ulp_difference = 0;
  double ulp = 0;
};

// Returns the distance between 1 and the next number.
double UlpOfOne(const std::string& dtype) {
  if (dtype == "bf16") return std::ldexp(1, -7);
  return std::ldexp(1, dtype == "fp32" ? -23 : -10);
}

// The logits of one side, without the first dimension if it is 1.
struct Logits {
  Tensor tensor;
  std::vector<double> numbers;
};

absl::StatusOr<Logits> ReadLogits(const std::string& path) {
  MSITD_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(path));
  std::vector<int64_t>& shape = tensor.shape;
  if (!shape.empty() && shape.front() == 1) shape.erase(shape.begin());
  auto numbers = NumbersOf(tensor);
  if (!numbers.ok()) return Annotate(numbers.status(), path);
  return Logits{std::move(tensor), *std::move(numbers)};
}

bool IsFinite(const std::vector<double>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](double x) { return std::isfinite(x); });
}

// Returns why two logits cannot be compared; empty if they can.
std::string WhyNot(const Logits& golden, const Logits& my) {
  std::string out;
  const auto add = [&out](bool applies, std::string_view text) {
    if (!applies) return;
    if (!out.empty()) out += ' ';
    out += text;
  };
  add(golden.tensor.shape != my.tensor.shape, "data shape doesn't match.");
  add(!IsFinite(golden.numbers), "golden_data includes NAN or inf.");
  add(!IsFinite(my.numbers), "my_data includes NAN or inf.");
  if (!out.empty()) return out;
  if (golden.numbers.empty()) return "the tensors have no elements";
  const auto longer =
      std::count_if(golden.tensor.shape.begin(), golden.tensor.shape.end(),
                    [](int64_t extent) { return extent > 1; });
  if (longer > 1) {
    return fmt::format("the tensors have {} dimensions, not one", longer);
  }
  return "";
}

double SumOfMagnitudes(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double x : numbers) sum += std::abs(x);
  return sum;
}

void MeasureL1(const Logits& golden, const Logits& my, Row& row) {
  const double golden_sum = SumOfMagnitudes(golden.numbers);
  const double my_sum = SumOfMagnitudes(my.numbers);
  if (golden_sum == 0) {
    // A whole number in msit's report.
    const int64_t value = my_sum == 0 ? 0 : 1;
    row.l1 = value;
    row.l1_value = static_cast<double>(value);
    return;
  }
  row.l1_value = my_sum / golden_sum - 1;
  row.l1 = ask::Real{row.l1_value, ask::RealStyle::kPython};
}

// Computes in float32, as msit does. Returns false if there is no result.
bool MeasureUlp(const Logits& golden, const Logits& my, double ulp_of_one,
                Row& row) {
  const auto largest = [](const Logits& logits) {
    return static_cast<float>(
        *std::max_element(logits.numbers.begin(), logits.numbers.end()));
  };
  const float golden_max = largest(golden);
  const float my_max = largest(my);
  if (my_max == 0) return false;
  row.ulp_difference = std::abs(golden_max - my_max);
  row.ulp =
      std::exp2(std::floor(std::log2(my_max))) * static_cast<float>(ulp_of_one);
  return true;
}

class LogitsComparison {
 public:
  LogitsComparison(const LogitsOptions& options, ask::Interrupts& interrupts,
                   Logger& log)
      : options_(options),
        log_(log),
        pairs_(interrupts, PairComparison::TakeReportRows(
                               [this](size_t pair, const ReportRow& row) {
                                 TakeMetrics(rows_[compared_[pair]], row);
                               })) {}

  absl::Status Run() {
    MSITD_ASSIGN_OR_RETURN(const std::set<std::string> golden,
                           FilesIn(options_.golden));
    MSITD_ASSIGN_OR_RETURN(const std::set<std::string> my,
                           FilesIn(options_.my));
    log_.Info(
        "Compare the logits of 'golden' and 'my', and calculate the result");
    bool has_common = false;
    for (const std::string& file : golden) {
      if (!my.contains(file)) continue;
      has_common = true;
      MSITD_RETURN_IF_ERROR(Compare(file));
    }
    if (!has_common) {
      return MakeStatus(absl::StatusCode::kNotFound,
                        "no {} file exists in both {} and {}", "*.pth",
                        options_.golden, options_.my);
    }
    MSITD_RETURN_IF_ERROR(pairs_.Finish());
    AddOnlyIn(golden, my, "only_in_golden_path");
    AddOnlyIn(my, golden, "only_in_my_path");
    return Save();
  }

 private:
  static absl::StatusOr<std::set<std::string>> FilesIn(
      const std::string& folder) {
    std::set<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator entry(folder, error);
    for (; !error && entry != std::filesystem::directory_iterator();
         entry.increment(error)) {
      std::string name = entry->path().filename().string();
      if (name.ends_with(kExtension)) names.insert(std::move(name));
    }
    if (error) return ErrnoStatus(error.value(), "read " + folder);
    return names;
  }

  absl::Status Compare(const std::string& file) {
    log_.Info("Start processing file: " + Quoted(file));
    Row& row = rows_.emplace_back();
    row.file = file;
    row.name = ParseLogitsName(file);
    row.has_name = row.name.problem.empty();
    if (!row.has_name) {
      row.reason = "parse_error:" + row.name.problem;
      log_.Warning(fmt::format("{}: {}", file, row.reason));
      return absl::OkStatus();
    }
    auto golden = ReadLogits(options_.golden + "/" + file);
    auto my = golden.ok() ? ReadLogits(options_.my + "/" + file)
                          : absl::StatusOr<Logits>(golden.status());
    if (!my.ok()) {
      row.reason = ask::Printable(Message(my.status()));
    } else {
      row.reason = WhyNot(*golden, *my);
    }
    if (row.reason.empty()) {
      MeasureL1(*golden, *my, row);
      if (!MeasureUlp(*golden, *my, UlpOfOne(options_.dtype), row)) {
        row.reason = "max value is 0, cannot compute ulp";
      }
    }
    if (!row.reason.empty()) {
      log_.Warning(fmt::format("{}: {}", file, row.reason));
      return absl::OkStatus();
    }
    const absl::Status added = pairs_.Add(golden->tensor, my->tensor);
    if (absl::IsInvalidArgument(added)) {
      row.reason = ask::Printable(Message(added));
      return absl::OkStatus();
    }
    compared_.push_back(rows_.size() - 1);
    return added;
  }

  static void TakeMetrics(Row& row, const ReportRow& metrics) {
    row.reason = metrics.reason();
    row.cosine = metrics.NumberAt("cosine_similarity");
    row.kl = metrics.NumberAt("kl_divergence");
  }

  void AddOnlyIn(const std::set<std::string>& here,
                 const std::set<std::string>& there, std::string_view reason) {
    for (const std::string& file : here) {
      if (there.contains(file)) continue;
      Row& row = rows_.emplace_back();
      row.file = file;
      row.name = ParseLogitsName("");
      row.reason = reason;
    }
  }

  bool Passes(const Row& row) const {
    const bool is_near = row.cosine > options_.cosine && row.kl < options_.kl &&
                         row.l1_value < options_.l1;
    return is_near || row.ulp_difference <= row.ulp;
  }

  std::vector<std::string> Fields(const Row& row) const {
    std::vector<std::string> fields = {ask::GuardFormula(row.file)};
    if (row.has_name) {
      fields.push_back(row.name.key);
      fields.push_back(fmt::format("{}", row.name.token));
    } else {
      fields.insert(fields.end(), 2, kNothing);
    }
    if (!row.reason.empty()) {
      fields.insert(fields.end(), 6, kNothing);
      fields.push_back(row.reason);
      return fields;
    }
    fields.push_back(ask::PythonFloat(row.cosine));
    fields.push_back(ask::PythonFloat(row.kl));
    fields.push_back(ask::TextOf(row.l1));
    fields.push_back(ask::PythonFloat(row.ulp_difference));
    fields.push_back(ask::PythonFloat(row.ulp));
    fields.emplace_back(Passes(row) ? "True" : "False");
    fields.emplace_back();
    return fields;
  }

  absl::Status Save() {
    std::stable_sort(
        rows_.begin(), rows_.end(),
        [](const Row& a, const Row& b) { return a.name.order < b.name.order; });
    std::string text;
    const auto add = [&text](const std::vector<std::string>& fields) {
      text += ask::CsvLine(fields, /*guards_formulas=*/false);
      text.insert(text.size() - 1, 1, '\r');
    };
    add({"file_name", "key", "token_id", "cosine_similarity", "kl_divergence",
         "l1_norm", "ulp_max_diff", "ulp", "passed", "cmp_fail_reason"});
    for (const Row& row : rows_) add(Fields(row));
    MSITD_ASSIGN_OR_RETURN(
        const std::string path,
        WriteCsvFile(AbsolutePath(options_.output),
                     "logits_cmp_res_" + ChinaTimeStamp(), text));
    log_.Info("Save compare result to " + Quoted(path));
    log_.Info("Success compare logits of 'golden data' and 'my data'");
    return absl::OkStatus();
  }

  const LogitsOptions& options_;
  Logger& log_;
  std::vector<Row> rows_;
  std::vector<size_t> compared_;  // The row of each pair.
  PairComparison pairs_;
};

}  // namespace

absl::Status CompareLogits(const LogitsOptions& options,
                           ask::Interrupts& interrupts, Logger& log) {
  return LogitsComparison(options, interrupts, log).Run();
}

}  // namespace msitd::msit_command
