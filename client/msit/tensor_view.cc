// SPDX-License-Identifier: Apache-2.0
#include "client/msit/tensor_view.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "client/ctl/print/file_sink.h"
#include "client/ctl/print/npy.h"
#include "client/msit/tensor.h"
#include "client/msit/tensor_operation.h"
#include "client/msit/tensor_text.h"
#include "protos/status/status.h"

namespace msitd::msit {
namespace {

// The types that msit reads of a .bin file, by their numbers there.
const std::map<DType, int>& AtbNumbers() {
  static const std::map<DType, int> kNumbers = {
      {DType::kFloat32, 0},  {DType::kFloat16, 1}, {DType::kInt8, 2},
      {DType::kInt32, 3},    {DType::kInt64, 9},   {DType::kBool, 12},
      {DType::kBfloat16, 27}};
  return kNumbers;
}

std::string ExtensionOf(const std::string& path) {
  return std::filesystem::path(path).extension().string();
}

absl::StatusOr<std::string> HeadOf(const Tensor& tensor,
                                   const std::string& extension) {
  if (extension == ".npy") {
    return ctl::MakeNpyHeader(tensor.dtype, tensor.shape).bytes;
  }
  if (extension != ".bin") {
    return MakeStatus(absl::StatusCode::kUnimplemented,
                      "{} files are not written; name a .bin or .npy file",
                      extension);
  }
  const auto number = AtbNumbers().find(tensor.dtype);
  if (number == AtbNumbers().end()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "a .bin file has no {} elements; name a .npy file",
                      DTypeName(tensor.dtype));
  }
  return fmt::format("dtype={}\ndims={}\n$End=1\n", number->second,
                     fmt::join(tensor.shape, ","));
}

absl::Status Save(const Tensor& tensor, const std::string& path) {
  MSITD_ASSIGN_OR_RETURN(const std::string head,
                         HeadOf(tensor, ExtensionOf(path)));
  MSITD_ASSIGN_OR_RETURN(
      ctl::FileSink sink,
      ctl::FileSink::Open(path, /*stdout_is_terminal=*/false));
  MSITD_RETURN_IF_ERROR(sink.Write(head));
  MSITD_RETURN_IF_ERROR(
      sink.Write({reinterpret_cast<const char*>(tensor.bytes.data()),
                  tensor.bytes.size()}));
  return sink.Commit();
}

// A name without an extension that msit knows gets that of the input.
std::string OutputPath(const TensorViewOptions& options) {
  const std::string extension = ExtensionOf(options.output);
  const bool is_known =
      extension == ".bin" || extension == ".pth" || extension == ".npy";
  return is_known ? options.output : options.output + ExtensionOf(options.file);
}

}  // namespace

absl::Status ViewTensor(const TensorViewOptions& options, Logger& log) {
  std::vector<TensorOperation> operations;
  if (!options.operations.empty()) {
    MSITD_ASSIGN_OR_RETURN(operations, ParseOperations(options.operations));
  }
  MSITD_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(options.file));
  log.Info("source tensor shape: " + SizeText(tensor.shape));
  if (!operations.empty()) log.Info("Operations start");
  for (const TensorOperation& operation : operations) {
    log.Info(fmt::format("{} starts, current tensor shape: {}",
                         operation.name(), SizeText(tensor.shape)));
    MSITD_ASSIGN_OR_RETURN(tensor, operation.Apply(tensor));
    log.Info(fmt::format("{} ends, current tensor shape: {}", operation.name(),
                         SizeText(tensor.shape)));
  }
  if (!operations.empty()) log.Info("Operations end");

  MSITD_ASSIGN_OR_RETURN(const std::vector<double> numbers, NumbersOf(tensor));
  if (numbers.empty()) {
    log.Warning("the tensor has no elements, and so no statistics");
  } else {
    log.InfoBlock(StatisticsGrid(tensor, numbers));
  }
  if (options.prints) log.InfoBlock("\n" + TensorText(tensor, numbers));
  if (!options.output.empty()) {
    const std::string path = OutputPath(options);
    if (absl::Status saved = Save(tensor, path); !saved.ok()) {
      return Annotate(saved, "Error saving Tensor: " + path);
    }
    log.Info(fmt::format("Tensor saved successfully to {}", path));
  }
  return absl::OkStatus();
}

}  // namespace msitd::msit
