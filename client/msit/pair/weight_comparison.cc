// SPDX-License-Identifier: Apache-2.0
#include "client/msit/pair/weight_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ask/text/text.h"
#include "client/foreign/formats/tensor_file.h"
#include "client/msit/pair/pair_comparison.h"
#include "client/msit/table/output_file.h"
#include "client/msit/tensor/dequantize.h"
#include "client/msit/tensor/tensor.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr std::string_view kWeight = "weight";
// Suffixes of the tensors that belong to a weight.
constexpr std::string_view kOffset = "_offset";
constexpr std::string_view kScale = "_scale";

constexpr size_t kExamplesMax = 5;

// The columns between the name of a weight and its metrics.
constexpr std::string_view kSideColumns[] = {"dtype", "shape", "max_value",
                                             "min_value", "mean_value"};
constexpr std::string_view kSides[] = {"golden", "my"};

// Returns the files of a folder with weights: those of safetensors, otherwise
// `*.bin`.
absl::StatusOr<std::vector<std::string>> WeightFiles(
    const std::string& folder) {
  std::vector<std::string> safetensors;
  std::vector<std::string> others;
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: --weight requires two folders", folder);
  }
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    std::error_code no_file;
    if (!entry->is_regular_file(no_file)) continue;
    const std::string path = entry->path().string();
    if (path.ends_with(".safetensors")) safetensors.push_back(path);
    if (path.ends_with(".bin")) others.push_back(path);
  }
  if (error) return ErrnoStatus(error.value(), "read " + folder);
  std::vector<std::string>& found = safetensors.empty() ? others : safetensors;
  if (found.empty()) {
    return MakeStatus(absl::StatusCode::kNotFound,
                      "{} has no .safetensors or .bin file", folder);
  }
  if (found.size() > kWeightFilesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "{} has {} files with weights; the maximum is {}", folder,
                      found.size(), kWeightFilesMax);
  }
  std::sort(found.begin(), found.end());
  return std::move(found);
}

// The weights of one side by name, in open files.
class Weights {
 public:
  static absl::StatusOr<Weights> Open(const std::string& folder, Logger& log) {
    MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                           WeightFiles(folder));
    Weights weights;
    for (const std::string& path : paths) {
      auto file = formats::OpenTensorFile(path, {});
      if (!file.ok()) {
        log.Warning(fmt::format("{}: {}", path, Message(file.status())));
        continue;
      }
      weights.Add(path, *std::move(file), log);
    }
    return weights;
  }

  // In the order of the files, and of the names in each file.
  const std::vector<std::string>& names() const { return names_; }
  bool Has(const std::string& name) const { return places_.contains(name); }
  DType TypeOf(const std::string& name) {
    const TensorLocation& place = places_.at(name);
    return files_[place.file]->GoTo(place.number)->dtype;
  }
  absl::StatusOr<Tensor> Read(const std::string& name) {
    const TensorLocation& place = places_.at(name);
    return ReadTensorAt(*files_[place.file], place.number);
  }

 private:
  struct TensorLocation {
    size_t file = 0;
    size_t number = 0;
  };

  void Add(const std::string& path, std::unique_ptr<formats::TensorFile> file,
           Logger& log) {
    const size_t first = names_.size();
    for (size_t i = 0; i < file->tensor_count(); ++i) {
      const std::string& name = file->Next()->name;
      if (!places_.try_emplace(name, TensorLocation{files_.size(), i}).second) {
        log.Warning(fmt::format("{}: {} appears twice; the first one is used",
                                path, Quoted(name)));
        continue;
      }
      names_.push_back(name);
    }
    std::sort(names_.begin() + static_cast<std::ptrdiff_t>(first),
              names_.end());
    files_.push_back(std::move(file));
  }

  std::vector<std::unique_ptr<formats::TensorFile>> files_;
  std::map<std::string, TensorLocation> places_;
  std::vector<std::string> names_;
};

class WeightComparison {
 public:
  WeightComparison(Weights& golden, Weights& my, ask::Interrupts& interrupts,
                   Logger& log)
      : golden_(golden),
        my_(my),
        log_(log),
        pairs_(interrupts, PairComparison::TakeReportRows(
                               [this](size_t pair, const ReportRow& row) {
                                 TakeRow(pair, row);
                               })) {}

  absl::Status Run(const std::string& output) {
    for (const std::string& name : golden_.names()) {
      if (!name.ends_with(kWeight)) continue;
      if (!my_.Has(name)) {
        golden_alone_.Add(name);
      } else if (my_.TypeOf(name) == DType::kInt8) {
        MSITD_RETURN_IF_ERROR(Compare(name));
      } else {
        ++plain_count_;
      }
    }
    FindAloneInMy();
    MSITD_RETURN_IF_ERROR(pairs_.Finish());
    if (lines_.empty())
      log_.Warning("The folders have no quantized weights in common");
    std::string text = Header();
    for (const std::string& line : lines_) text += line;
    MSITD_ASSIGN_OR_RETURN(
        const std::string path,
        WriteCsvFile(AbsolutePath(output), "msit_cmp_report_" + UtcTimeStamp(),
                     text));
    log_.Info("Saved comparing results: " + path);
    SayCounts();
    return absl::OkStatus();
  }

 private:
  // Tensors without a counterpart, for the same reason.
  struct Alone {
    size_t count = 0;
    // The first ones.
    std::vector<std::string> examples;

    void Add(const std::string& name) {
      ++count;
      if (examples.size() < kExamplesMax) examples.push_back(Quoted(name));
    }
  };

  void FindAloneInMy() {
    for (const std::string& name : my_.names()) {
      const bool is_beside = name.ends_with(kOffset) || name.ends_with(kScale);
      if (is_beside || my_.TypeOf(name) != DType::kInt8) continue;
      if (!name.ends_with(kWeight)) {
        nameless_.Add(name);
      } else if (!golden_.Has(name)) {
        my_alone_.Add(name);
      }
    }
    Warn(golden_alone_, "weights of golden are not in the other folder");
    Warn(my_alone_, "quantized weights of my are not in golden");
    Warn(nameless_, "int8 tensors of my do not have the name of a weight");
  }

  void Warn(const Alone& alone, std::string_view what) {
    if (alone.count == 0) return;
    log_.Warning(fmt::format(
        "{} {}: {}{}", alone.count, what, fmt::join(alone.examples, ", "),
        alone.count > alone.examples.size() ? ", ..." : ""));
  }

  void SayCounts() {
    const auto row_count =
        std::count_if(lines_.begin(), lines_.end(),
                      [](const std::string& line) { return !line.empty(); });
    const std::string text = fmt::format(
        "{} weights compared, {} left out, {} not quantized; {} only in "
        "golden, {} quantized ones only in my, {} int8 tensors without the "
        "name of a weight",
        row_count, left_out_count_, plain_count_, golden_alone_.count,
        my_alone_.count, nameless_.count);
    const bool is_all = left_out_count_ + golden_alone_.count +
                            my_alone_.count + nameless_.count ==
                        0;
    if (is_all) {
      log_.Info(text);
    } else {
      log_.Warning(text);
    }
  }

  void LeaveOut(const std::string& name, std::string_view reason) {
    ++left_out_count_;
    log_.Warning(fmt::format("{} is left out: {}", Quoted(name), reason));
  }

  // Returns a tensor that belongs to a weight; an error if it does not exist.
  absl::StatusOr<Tensor> ReadBeside(const std::string& name,
                                    std::string_view ending) {
    const std::string beside = name + std::string(ending);
    if (!my_.Has(beside)) {
      return MakeStatus(absl::StatusCode::kNotFound, "there is no {}",
                        Quoted(beside));
    }
    return my_.Read(beside);
  }

  absl::StatusOr<Tensor> ReadMy(const std::string& name) {
    MSITD_ASSIGN_OR_RETURN(const Tensor offset, ReadBeside(name, kOffset));
    MSITD_ASSIGN_OR_RETURN(const Tensor scale, ReadBeside(name, kScale));
    MSITD_ASSIGN_OR_RETURN(const Tensor weight, my_.Read(name));
    return Dequantize(weight, offset, scale);
  }

  absl::Status Compare(const std::string& name) {
    log_.Debug("Comparing " + Quoted(name));
    const auto my = ReadMy(name);
    const auto golden =
        my.ok() ? golden_.Read(name) : absl::StatusOr<Tensor>(my.status());
    if (!golden.ok()) {
      LeaveOut(name, Message(golden.status()));
      return absl::OkStatus();
    }
    if (golden->bytes.empty() || my->bytes.empty()) {
      LeaveOut(name, "it has no elements");
      return absl::OkStatus();
    }
    const absl::Status added = pairs_.Add(*golden, *my);
    if (absl::IsInvalidArgument(added)) {
      LeaveOut(name, Message(added));
      return absl::OkStatus();
    }
    MSITD_RETURN_IF_ERROR(added);
    compared_.push_back(name);
    lines_.emplace_back();
    return absl::OkStatus();
  }

  static std::string Header() {
    std::vector<std::string> columns = {"weight_name"};
    for (const std::string_view side : kSides) {
      for (const std::string_view column : kSideColumns) {
        columns.push_back(fmt::format("{}_{}", side, column));
      }
    }
    columns.insert(columns.end(), std::begin(kMetricColumns),
                   std::end(kMetricColumns));
    return ask::CsvLine(columns, /*guards_formulas=*/false);
  }

  void TakeRow(size_t pair, const ReportRow& row) {
    const std::string& name = compared_[pair];
    const std::string reason = row.reason();
    if (reason == "data shape doesn't match.") return LeaveOut(name, reason);
    if (!reason.empty()) {
      log_.Warning(fmt::format("{} has no metrics: {}", Quoted(name), reason));
    }
    std::vector<std::string> fields = {ask::GuardFormula(name)};
    for (const std::string_view side : kSides) {
      for (const std::string_view column : kSideColumns) {
        fields.push_back(
            ask::TextOf(row.At(fmt::format("{}_{}", side, column))));
      }
    }
    const bool one_is_int8 =
        (fields[1] == "torch.int8") !=
        (fields[1 + std::size(kSideColumns)] == "torch.int8");
    if (one_is_int8) return LeaveOut(name, "only one side is int8");
    for (const std::string_view column : kMetricColumns) {
      const std::string text = ask::TextOf(row.At(column));
      fields.push_back(text == "nan" ? "" : text);
    }
    lines_[pair] = ask::CsvLine(fields, /*guards_formulas=*/false);
  }

  Weights& golden_;
  Weights& my_;
  Logger& log_;
  std::vector<std::string> compared_;  // The weight of each pair.
  std::vector<std::string> lines_;     // The line of the report for each pair.
  size_t left_out_count_ = 0;
  size_t plain_count_ = 0;  // Weights that are not quantized.
  Alone golden_alone_;
  Alone my_alone_;
  Alone nameless_;  // Int8, but not a weight by name.
  PairComparison pairs_;
};

}  // namespace

absl::Status CompareWeights(const std::string& golden, const std::string& my,
                            const std::string& output,
                            ask::Interrupts& interrupts, Logger& log) {
  MSITD_ASSIGN_OR_RETURN(Weights golden_weights, Weights::Open(golden, log));
  MSITD_ASSIGN_OR_RETURN(Weights my_weights, Weights::Open(my, log));
  MSITD_RETURN_IF_ERROR(
      Annotate(CheckReportFolder(AbsolutePath(output)), "--output"));
  return WeightComparison(golden_weights, my_weights, interrupts, log)
      .Run(output);
}

}  // namespace msitd::msit_command
