// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/torch_file.h"

#include <fmt/format.h>

#include <limits>

#include "client/foreign/write/writer/zip_writer.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

// How torch pickles a type: through a storage class of its own or, without one,
// through its name.
struct TorchType {
  std::string_view name;
  std::string_view storage;
};

TorchType TorchTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {"bool", "BoolStorage"};
    case DType::kInt8:
    case DType::kInt1:
    case DType::kInt2:
    case DType::kInt3:
    case DType::kInt4:
    case DType::kInt5:
    case DType::kInt6:
    case DType::kInt7:
      return {"int8", "CharStorage"};
    case DType::kInt16:
      return {"int16", "ShortStorage"};
    case DType::kInt32:
      return {"int32", "IntStorage"};
    case DType::kInt64:
      return {"int64", "LongStorage"};
    case DType::kFloat16:
      return {"float16", "HalfStorage"};
    case DType::kBfloat16:
      return {"bfloat16", "BFloat16Storage"};
    case DType::kFloat32:
      return {"float32", "FloatStorage"};
    case DType::kFloat64:
      return {"float64", "DoubleStorage"};
    case DType::kComplex64:
      return {"complex64", "ComplexFloatStorage"};
    case DType::kComplex128:
      return {"complex128", "ComplexDoubleStorage"};
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E5m2:
    case DType::kFloat8E8m0fnu:
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E5m2fnuz:
    case DType::kComplex32:
      return {DTypeName(dtype), ""};
    case DType::kBits16:
      return {"uint16", ""};
    default:
      return {"uint8", "ByteStorage"};
  }
}

// Writes pickles of protocol 2 and numbers objects as Python does.
class Pickle {
 public:
  Pickle() : out_("\x80\x02") {}

  void Global(std::string_view module, std::string_view name) {
    out_ += fmt::format("c{}\n{}\n", module, name);
    Memoize();
  }
  void Text(std::string_view text) {
    out_ += 'X';
    AppendInt(static_cast<uint32_t>(text.size()), 4);
    out_ += text;
    Memoize();
  }
  void Int(uint64_t value) {
    if (value <= 0xff) {
      out_ += 'K';
      AppendInt(value, 1);
    } else if (value <= 0xffff) {
      out_ += 'M';
      AppendInt(value, 2);
    } else if (value <= std::numeric_limits<int32_t>::max()) {
      out_ += 'J';
      AppendInt(value, 4);
    } else {
      size_t size = 4;
      while (size < 8 && value >> (8 * size - 1) != 0) ++size;
      out_ += '\x8a';
      AppendInt(size, 1);
      AppendInt(value, size);
    }
  }
  void Bool(bool value) { out_ += value ? '\x88' : '\x89'; }
  void Mark() { out_ += '('; }
  void Code(char code) { out_ += code; }
  void MarkedTuple() {
    out_ += 't';
    Memoize();
  }
  void Tuple(const std::vector<uint64_t>& values) {
    if (values.empty()) {
      out_ += ')';
      return;
    }
    if (values.size() > 3) Mark();
    for (const uint64_t value : values) Int(value);
    if (values.size() > 3) return MarkedTuple();
    out_ += static_cast<char>(0x84 + values.size());
    Memoize();
  }
  void Reduce() {
    out_ += 'R';
    Memoize();
  }
  std::string Finish() { return out_ + '.'; }

 private:
  void AppendInt(uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      out_ += static_cast<char>(value >> 8 * i & 0xff);
    }
  }
  void Memoize() {
    out_ += 'q';
    AppendInt(memo_++, 1);
  }

  std::string out_;
  uint64_t memo_ = 0;
};

std::vector<uint64_t> StridesOf(const std::vector<int64_t>& shape) {
  std::vector<uint64_t> out(shape.size());
  uint64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    out[i] = stride;
    stride *= static_cast<uint64_t>(shape[i] > 1 ? shape[i] : 1);
  }
  return out;
}

}  // namespace

std::string_view TorchTypeName(DType dtype) { return TorchTypeOf(dtype).name; }

std::string TorchPickle(const TorchTensor& tensor) {
  const TorchType type = TorchTypeOf(tensor.dtype);
  const bool has_storage = !type.storage.empty();
  const uint64_t element_bytes = ElementBytes(tensor.dtype);
  Pickle out;
  out.Global("torch._utils",
             has_storage ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  out.Mark();
  out.Mark();
  out.Text("storage");
  if (has_storage) {
    out.Global("torch", type.storage);
  } else {
    out.Global("torch.storage", "UntypedStorage");
  }
  out.Text("0");
  out.Text("cpu");
  out.Int(has_storage ? tensor.size_bytes / element_bytes : tensor.size_bytes);
  out.MarkedTuple();
  out.Code('Q');
  out.Int(0);
  out.Tuple({tensor.shape.begin(), tensor.shape.end()});
  out.Tuple(StridesOf(tensor.shape));
  out.Bool(tensor.requires_grad);
  out.Global("collections", "OrderedDict");
  out.Code(')');
  out.Reduce();
  if (!has_storage) out.Global("torch", type.name);
  out.MarkedTuple();
  out.Reduce();
  return out.Finish();
}

absl::Status WriteTorchFile(OutputFile& file, std::string_view stem,
                            const TorchTensor& tensor,
                            absl::FunctionRef<absl::Status(TorchSink)> give) {
  ZipWriter zip(file);
  const auto name = [stem](std::string_view member) {
    return fmt::format("{}/{}", stem, member);
  };
  MSITD_RETURN_IF_ERROR(zip.Add(name("data.pkl"), TorchPickle(tensor)));
  MSITD_RETURN_IF_ERROR(zip.Add(name("byteorder"), "little"));
  MSITD_RETURN_IF_ERROR(zip.Begin(name("data/0"), tensor.size_bytes));
  MSITD_RETURN_IF_ERROR(
      give([&zip](std::string_view piece) { return zip.Write(piece); }));
  MSITD_RETURN_IF_ERROR(zip.End());
  MSITD_RETURN_IF_ERROR(zip.Add(name("version"), "3\n"));
  return zip.Finish();
}

}  // namespace msitd::write
