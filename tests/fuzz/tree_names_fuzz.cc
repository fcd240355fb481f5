// SPDX-License-Identifier: Apache-2.0
// Names of files and folders in dumps of CANN and TorchAir, and the file that
// lists the names that were too long.
#include "client/foreign/trees/file_name.h"
#include "client/foreign/trees/json/numbers.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/base/check.h"
#include "protos/base/digits.h"
#include "protos/base/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  return {"",
          "Add.Add_2.44.6.17065969121619",
          "TransData.TransData_1.1.42.6.1700596912158100_min_max.npz",
          "Mul.Mul_1.13.1756699200000003.2.0.1.3.csv",
          "Sub.Sub.16.6.1756699200000006.output.0.npy",
          "cat-aten.cat.default.INPUT.0.1.20240125031118787351_min_max.npy",
          "mm-aten.mm.default.OUTPUT.0.20240125031118787351.npy",
          "worldsize16_global_rank3",
          "dynamo_original_graph_1_rank_10_pid_2_ts_3.txt",
          "123,Add.a.1.2.3\n456,Sub.b,c.1.2.3\r\n\n7,x\n",
          "12345678901234567890_min_max.npz"};
}

}  // namespace msitd::fuzz

namespace msitd::trees {
namespace {

void TryGe(std::string_view text) {
  const auto name = ParseGeFileName(text);
  MSITD_CHECK(name.has_value() || !IsSurelyGeFileName(text));
  if (!name.has_value()) return;
  MSITD_CHECK(!name->op_type.empty() && !name->op_name.empty());
  MSITD_CHECK(name->op_type.find('.') == std::string::npos);
  MSITD_CHECK(text.starts_with(name->op_type + "." + name->op_name + "."));
  MSITD_CHECK(name->task >= 0 && name->time >= 0);
  MSITD_CHECK(name->stream.value_or(0) >= 0 && name->slice.size() <= 4);
  MSITD_CHECK((name->form == GeForm::kArray) == IsValid(name->io));
  MSITD_CHECK((name->form == GeForm::kArray) == IsDigits(name->index));
}

void TryFx(std::string_view text) {
  const auto name = ParseFxFileName(text);
  if (!name.has_value()) return;
  const std::string_view io = name->io == Io::kInput ? "INPUT" : "OUTPUT";
  MSITD_CHECK(text == name->op + "." + std::string(io) + "." + name->index +
                          "." + name->time +
                          (name->is_min_max ? "_min_max.npy" : ".npy"));
  MSITD_CHECK(!name->op.empty() && IsDigits(name->time));
  MSITD_CHECK(name->index.find_first_not_of("0123456789.") ==
              std::string::npos);
}

void TryLongNames(std::string_view text) {
  std::vector<absl::Status> problems;
  const LongNames names = ParseLongNames(text, &problems);
  MSITD_CHECK(names.size() <= kLongNamesMax);
  MSITD_CHECK(problems.size() <= kLongNamesMax + 1);
  for (const absl::Status& problem : problems) MSITD_CHECK(!problem.ok());
  for (const auto& [number, name] : names) {
    MSITD_CHECK(IsDigits(number) && IsValidUtf8(name));
    MSITD_CHECK(!name.empty() && name.size() <= kLongNameBytesMax);
    MSITD_CHECK(name.find('/') == std::string::npos);
  }
}

void TryFolders(std::string_view text) {
  if (const auto folder = ParseRankFolder(text)) {
    MSITD_CHECK(folder->rank >= 0 && folder->world_size >= 0);
  }
  MSITD_CHECK(RankOfGraphText(text).value_or(0) >= 0);
  if (const auto number = ParseLongNameNumber(text)) {
    MSITD_CHECK(text == number->number + number->suffix);
    MSITD_CHECK(IsDigits(number->number));
  }
}

// The comparison must be a strict weak ordering; otherwise, sorting is
// undefined.
void TryOrder(std::string_view text) {
  const size_t third = text.size() / 3;
  const std::string_view a = text.substr(0, third);
  const std::string_view b = text.substr(third, third);
  const std::string_view c = text.substr(2 * third);
  MSITD_CHECK(!NaturalLess(a, a));
  MSITD_CHECK((a == b) == (!NaturalLess(a, b) && !NaturalLess(b, a)));
  MSITD_CHECK(!(NaturalLess(a, b) && NaturalLess(b, a)));
  MSITD_CHECK(!(NaturalLess(a, b) && NaturalLess(b, c)) || NaturalLess(a, c));
}

}  // namespace
}  // namespace msitd::trees

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  msitd::trees::TryGe(text);
  msitd::trees::TryFx(text);
  msitd::trees::TryLongNames(text);
  msitd::trees::TryFolders(text);
  msitd::trees::TryOrder(text);
  return 0;
}
