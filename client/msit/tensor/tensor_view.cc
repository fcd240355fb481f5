// SPDX-License-Identifier: Apache-2.0
#include "client/msit/tensor/tensor_view.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "client/foreign/write/output_folder.h"
#include "client/foreign/write/writer/npy_header.h"
#include "client/foreign/write/writer/torch_file.h"
#include "client/msit/tensor/tensor.h"
#include "client/msit/tensor/tensor_operation.h"
#include "client/msit/tensor/tensor_text.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

// The types that msit can read from a .bin file, by their numbers there.
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

std::string_view BytesOf(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()),
          tensor.bytes.size()};
}

absl::Status WriteAtb(write::OutputFile& file, const Tensor& tensor) {
  const auto number = AtbNumbers().find(tensor.dtype);
  if (number == AtbNumbers().end()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "a .bin file cannot have {} elements; use a .npy file",
                      DTypeName(tensor.dtype));
  }
  MSITD_RETURN_IF_ERROR(
      file.Write(fmt::format("dtype={}\ndims={}\n$End=1\n", number->second,
                             fmt::join(tensor.shape, ","))));
  return file.Write(BytesOf(tensor));
}

absl::Status WriteNpy(write::OutputFile& file, const Tensor& tensor) {
  MSITD_RETURN_IF_ERROR(
      file.Write(write::MakeNpyHeader(tensor.dtype, tensor.shape).bytes));
  return file.Write(BytesOf(tensor));
}

absl::Status WriteTorch(write::OutputFile& file, const std::string& stem,
                        const Tensor& tensor) {
  const write::TorchTensor head{.dtype = tensor.dtype,
                                .shape = tensor.shape,
                                .size_bytes = tensor.bytes.size()};
  return write::WriteTorchFile(
      file, stem, head, [&tensor](write::TorchSink sink) {
        return tensor.bytes.empty() ? absl::OkStatus() : sink(BytesOf(tensor));
      });
}

absl::Status Save(const Tensor& tensor, const std::filesystem::path& path) {
  const std::string folder = path.parent_path().string();
  MSITD_ASSIGN_OR_RETURN(const auto output, write::OutputFolder::Open(
                                                folder.empty() ? "." : folder,
                                                /*replaces=*/true));
  MSITD_ASSIGN_OR_RETURN(const auto file,
                         output->Create(path.filename().string()));
  if (path.extension() == ".bin") {
    MSITD_RETURN_IF_ERROR(WriteAtb(*file, tensor));
  } else if (path.extension() == ".npy") {
    MSITD_RETURN_IF_ERROR(WriteNpy(*file, tensor));
  } else {
    MSITD_RETURN_IF_ERROR(WriteTorch(*file, path.stem().string(), tensor));
  }
  return file->Commit();
}

// A file name without an extension gets that of the input, or .pth.
std::string OutputPath(const TensorViewOptions& options) {
  const auto is_written = [](const std::string& extension) {
    return extension == ".bin" || extension == ".pth" || extension == ".npy";
  };
  if (is_written(ExtensionOf(options.output))) return options.output;
  const std::string extension = ExtensionOf(options.file);
  return options.output + (is_written(extension) ? extension : ".pth");
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
    log.Warning("the tensor has no elements and no statistics");
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

}  // namespace msitd::msit_command
