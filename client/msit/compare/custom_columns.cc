// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/custom_columns.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "client/import/formats/tensor_file.h"
#include "client/msit/tensor.h"
#include "protos/status/status.h"

namespace msitd::msit {
namespace {

// Of msit's 24 columns.
constexpr size_t kFirstMetricColumn = 16;
constexpr size_t kReasonColumn = 23;

absl::StatusOr<Tensor> ReadShared(const TensorPlace& place) {
  MSITD_ASSIGN_OR_RETURN(const auto file,
                         formats::OpenTensorFile(place.file.path, {}));
  for (size_t i = 0; i < file->tensor_count(); ++i) {
    const formats::ForeignTensor* const tensor = file->GoTo(i);
    if (tensor->io == place.key.io && tensor->index == place.key.index) {
      return ReadTensorAt(*file, i);
    }
  }
  // A container that says of its only tensor neither.
  if (file->tensor_count() == 1) return ReadTensorAt(*file, 0);
  return MakeStatus(absl::StatusCode::kNotFound, "{} {} is not in it",
                    IoName(place.key.io), place.key.index);
}

absl::StatusOr<Tensor> Read(const TensorPlace& place) {
  if (place.file.path.empty()) {
    return MakeStatus(absl::StatusCode::kNotFound, "{} has no file",
                      place.key.op);
  }
  if (!place.file.is_shared) return ReadTensor(place.file.path);
  auto tensor = ReadShared(place);
  if (!tensor.ok()) return Annotate(tensor.status(), place.file.path);
  return tensor;
}

ctl::Cell CellOf(const ctl::PairAnswer& answer) {
  const std::string& shown = answer.shown;
  if (!answer.has_value) return shown;
  // NaN is an empty cell in all columns.
  if (std::isnan(answer.value)) return {};
  if (ctl::PythonFloat(answer.value) == shown) {
    return ctl::Real{answer.value, ctl::RealStyle::kPython};
  }
  int64_t integer = 0;
  const char* const end = shown.data() + shown.size();
  const auto [stop, error] = std::from_chars(shown.data(), end, integer);
  if (error == std::errc() && stop == end) return integer;
  return shown;
}

void AddText(const std::string& text, ctl::Cell& reason) {
  if (text.empty()) return;
  const std::string before = ctl::TextOf(reason);
  reason = before.empty() ? text : before + " " + text;
}

}  // namespace

CustomColumns::CustomColumns(CustomAlgorithms& algorithms, bool is_compat)
    : algorithms_(algorithms),
      names_(algorithms.names()),
      is_compat_(is_compat) {}

void CustomColumns::AddHeadings(std::vector<std::string>& headings) const {
  if (is_compat_) return;
  headings.insert(headings.end(), names_.begin(), names_.end());
}

absl::Status CustomColumns::AddCells(const TensorPlace& golden,
                                     const TensorPlace& my, ctl::Cells& cells) {
  if (names_.empty()) return absl::OkStatus();
  std::vector<ctl::PairAnswer> answers(names_.size());
  const bool has_metrics =
      !std::holds_alternative<std::monostate>(cells[kFirstMetricColumn]);
  if (has_metrics) {
    const auto golden_tensor = Read(golden);
    const auto my_tensor = Read(my);
    if (golden_tensor.ok() && my_tensor.ok()) {
      MSITD_ASSIGN_OR_RETURN(answers,
                             algorithms_.Measure(*golden_tensor, *my_tensor));
    } else {
      answers.front().text = std::string(Message(
          golden_tensor.ok() ? my_tensor.status() : golden_tensor.status()));
    }
  }
  for (const ctl::PairAnswer& answer : answers) {
    AddText(answer.text, cells[kReasonColumn]);
    if (is_compat_) continue;
    cells.push_back(answer.shown.empty() ? ctl::Cell() : CellOf(answer));
  }
  return absl::OkStatus();
}

}  // namespace msitd::msit
