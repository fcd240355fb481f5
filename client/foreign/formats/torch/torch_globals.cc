// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/torch/torch_globals.h"

#include <algorithm>
#include <iterator>

namespace msitd::formats {
namespace {

struct GlobalRow {
  std::string_view module;
  std::string_view name;
  TorchGlobal global;
};

constexpr GlobalRow kGlobals[] = {
    {"torch._utils", "_rebuild_tensor_v2", TorchGlobal::kTensorV2},
    {"torch._utils", "_rebuild_tensor_v3", TorchGlobal::kTensorV3},
    {"torch._utils", "_rebuild_tensor", TorchGlobal::kTensor},
    // Its storage was copied to the CPU in plain order.
    {"torch_npu.utils.storage", "_rebuild_npu_tensor", TorchGlobal::kTensor},
    {"torch._utils", "_rebuild_parameter", TorchGlobal::kWrapped},
    {"torch._utils", "_rebuild_parameter_with_state", TorchGlobal::kWrapped},
    {"torch._tensor", "_rebuild_from_type_v2", TorchGlobal::kFromType},
    {"torch._utils", "_rebuild_qtensor", TorchGlobal::kUnreadable},
    {"torch._utils", "_rebuild_sparse_tensor", TorchGlobal::kUnreadable},
    {"torch._utils", "_rebuild_sparse_csr_tensor", TorchGlobal::kUnreadable},
    {"torch._utils", "_rebuild_nested_tensor", TorchGlobal::kUnreadable},
    {"torch._utils", "_rebuild_meta_tensor_no_storage",
     TorchGlobal::kUnreadable},
    {"collections", "OrderedDict", TorchGlobal::kDict},
    {"torch", "Size", TorchGlobal::kValue},
    {"torch", "device", TorchGlobal::kValue},
    {"torch", "Tensor", TorchGlobal::kValue},
    {"torch.nn.parameter", "Parameter", TorchGlobal::kValue},
    {"torch.nn.parameter", "Buffer", TorchGlobal::kValue},
    {"torch.serialization", "_get_layout", TorchGlobal::kValue},
    {"torch_npu.npu._format", "Format", TorchGlobal::kValue},
    {"_codecs", "encode", TorchGlobal::kValue},
};

// Globals of module `builtins`, which Python 2 called `__builtin__`.
constexpr std::string_view kBuiltins[] = {"bytearray", "complex", "frozenset",
                                          "set"};

// Globals of module `torch`, in addition to the types that msitd supports.
constexpr std::string_view kOtherConstants[] = {
    "bits16",
    "bits1x8",
    "bits2x4",
    "bits4x2",
    "bits8",
    "float4_e2m1fn_x2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "int3",
    "int5",
    "int6",
    "int7",
    "per_channel_affine",
    "per_channel_affine_float_qparams",
    "per_channel_symmetric",
    "per_tensor_affine",
    "per_tensor_symmetric",
    "qint32",
    "qint8",
    "quint2x4",
    "quint4x2",
    "quint8",
    "uint3",
    "uint5",
    "uint6",
    "uint7",
};

struct TorchType {
  std::string_view name;
  DType dtype;
};

constexpr TorchType kStorages[] = {
    {"BFloat16Storage", DType::kBfloat16},
    {"BoolStorage", DType::kBool},
    {"ByteStorage", DType::kUint8},
    {"CharStorage", DType::kInt8},
    {"ComplexDoubleStorage", DType::kComplex128},
    {"ComplexFloatStorage", DType::kComplex64},
    {"DoubleStorage", DType::kFloat64},
    {"FloatStorage", DType::kFloat32},
    {"HalfStorage", DType::kFloat16},
    {"IntStorage", DType::kInt32},
    {"LongStorage", DType::kInt64},
    {"ShortStorage", DType::kInt16},
    {"QInt32Storage", DType::kUnspecified},
    {"QInt8Storage", DType::kUnspecified},
    {"QUInt2x4Storage", DType::kUnspecified},
    {"QUInt4x2Storage", DType::kUnspecified},
    {"QUInt8Storage", DType::kUnspecified},
    // Without a type, the elements are bytes.
    {"TypedStorage", DType::kUint8},
    {"UntypedStorage", DType::kUint8},
};

template <typename Rows>
bool Contains(const Rows& rows, std::string_view name) {
  return std::find(std::begin(rows), std::end(rows), name) != std::end(rows);
}

bool IsStorage(std::string_view name) {
  return std::any_of(std::begin(kStorages), std::end(kStorages),
                     [&](const TorchType& row) { return row.name == name; });
}

}  // namespace

TorchGlobal TorchGlobalOf(std::string_view module, std::string_view name) {
  for (const GlobalRow& row : kGlobals) {
    if (row.module == module && row.name == name) return row.global;
  }
  const bool has_storages =
      module == "torch" || module == "torch.cuda" || module == "torch.storage";
  if (has_storages && IsStorage(name)) return TorchGlobal::kStorage;
  if (module == "torch" &&
      (ParseDType(name).has_value() || Contains(kOtherConstants, name))) {
    return TorchGlobal::kDType;
  }
  if ((module == "builtins" || module == "__builtin__") &&
      Contains(kBuiltins, name)) {
    return TorchGlobal::kValue;
  }
  return TorchGlobal::kUnknown;
}

std::string_view UnreadableReason(std::string_view name) {
  if (name == "_rebuild_qtensor") return "it is quantized";
  if (name == "_rebuild_nested_tensor") return "it is a nested tensor";
  if (name == "_rebuild_meta_tensor_no_storage") {
    return "it is a meta tensor, which has no elements";
  }
  return "it is sparse";
}

DType TorchStorageType(std::string_view name) {
  for (const TorchType& row : kStorages) {
    if (row.name == name) return row.dtype;
  }
  return DType::kUnspecified;
}

DType TorchDType(std::string_view name) {
  const DType dtype = ParseDType(name).value_or(DType::kUnspecified);
  // How torch stores smaller elements is not settled.
  return InfoOf(dtype).bits < 8 ? DType::kUnspecified : dtype;
}

}  // namespace msitd::formats
