// SPDX-License-Identifier: Apache-2.0
#include "client/python/torch_reader.h"

#include <cstddef>
#include <utility>

namespace nb = nanobind;

namespace msitd::python {

// Functions that a tensor library exposes in a capsule, as in DLPack 1.2.
struct ExchangeApi {
  struct Header {
    uint32_t major;
    uint32_t minor;
    Header* former;
  };
  using Unused = void (*)();

  Header header;
  Unused allocate;
  Unused managed_from_object;
  Unused managed_to_object;
  // Fills `out` with borrowed memory of a tensor; returns 0 on success. Does
  // not wait for devices.
  int (*look)(void* object, nb::dlpack::dltensor* out);
  Unused work_stream;
};

namespace {

constexpr char kCapsuleName[] = "dlpack_exchange_api";
constexpr uint32_t kMajorVersion = 1;

// Returns whether a method or an attribute of `object` is true. If the call
// fails, the result is also true, so that the tensor takes the slower path.
bool IsTrue(PyObject* answer) {
  const bool is_true = answer != Py_False;
  if (answer == nullptr) PyErr_Clear();
  Py_XDECREF(answer);
  return is_true;
}

// Calls a method without arguments.
PyObject* Call(PyObject* object, const nb::str& method) {
  PyObject* arguments[] = {nullptr, object};
  return PyObject_VectorcallMethod(method.ptr(), arguments + 1,
                                   1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

}  // namespace

int32_t DTypeOf(nb::dlpack::dtype type) {
  if (type.lanes != 1) return MSIT_DTYPE_UNSPECIFIED;
  // Numbers of DLPack 1.1.
  enum Code { kInt, kUint, kFloat, kBfloat = 4, kComplex, kBool };
  constexpr int kFloat8E4m3fn = 10;
  constexpr int kFloat8E5m2 = 12;
  constexpr int kFloat8E8m0fnu = 14;
  const int bits = type.bits;
  const int log2_bytes = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3;
  const bool is_word = bits == 8 || bits == 16 || bits == 32 || bits == 64;
  switch (type.code) {
    case kInt:
      return is_word ? MSIT_DTYPE_INT8 + log2_bytes : 0;
    case kUint:
      return is_word ? MSIT_DTYPE_UINT8 + log2_bytes : 0;
    case kFloat:
      return bits == 16   ? MSIT_DTYPE_FLOAT16
             : bits == 32 ? MSIT_DTYPE_FLOAT32
             : bits == 64 ? MSIT_DTYPE_FLOAT64
                          : 0;
    case kBfloat:
      return bits == 16 ? MSIT_DTYPE_BFLOAT16 : 0;
    case kComplex:
      return bits == 32    ? MSIT_DTYPE_COMPLEX32
             : bits == 64  ? MSIT_DTYPE_COMPLEX64
             : bits == 128 ? MSIT_DTYPE_COMPLEX128
                           : 0;
    case kBool:
      return bits == 8 ? MSIT_DTYPE_BOOL : 0;
    case kFloat8E4m3fn:
      return MSIT_DTYPE_FLOAT8_E4M3FN;
    case kFloat8E5m2:
      return MSIT_DTYPE_FLOAT8_E5M2;
    case kFloat8E8m0fnu:
      return MSIT_DTYPE_FLOAT8_E8M0FNU;
    default:
      return MSIT_DTYPE_UNSPECIFIED;
  }
}

void TorchReader::Tensor::Describe(msit_tensor* record) const {
  record->dtype = dtype;
  record->dim_count = dim_count;
  record->dims = dims;
  record->byte_strides = byte_strides;
  record->data = data;
  record->requires_grad = requires_grad;
}

TorchReader::TorchReader(const nb::capsule& exchange, nb::type_object tensor,
                         nb::type_object parameter)
    : api_(static_cast<const ExchangeApi*>(exchange.data(kCapsuleName))),
      tensor_(std::move(tensor)),
      parameter_(std::move(parameter)),
      requires_grad_(
          nb::steal<nb::str>(PyUnicode_InternFromString("requires_grad"))),
      dtype_(nb::steal<nb::str>(PyUnicode_InternFromString("dtype"))),
      int8_(nb::module_::import_("torch").attr("int8")),
      uint8_(nb::module_::import_("torch").attr("uint8")),
      is_neg_(nb::steal<nb::str>(PyUnicode_InternFromString("is_neg"))),
      is_conj_(nb::steal<nb::str>(PyUnicode_InternFromString("is_conj"))) {
  if (api_->header.major != kMajorVersion || api_->look == nullptr) {
    throw nb::type_error("the tensors of this torch are read in another way");
  }
}

bool TorchReader::HasMemory(PyObject* object) const {
  nb::dlpack::dltensor seen;
  if (api_->look(object, &seen) != 0) {
    PyErr_Clear();
    return false;
  }
  return seen.data != nullptr;
}

bool TorchReader::Read(PyObject* object, Tensor* out) const {
  if (!IsTensor(object)) return false;
  nb::dlpack::dltensor seen;
  if (api_->look(object, &seen) != 0) {
    PyErr_Clear();
    return false;
  }
  if (seen.device.device_type != nb::device::cpu::value ||
      seen.ndim > kDimsMax || (seen.strides == nullptr && seen.ndim != 0)) {
    return false;
  }
  out->dtype = DTypeOf(seen.dtype);
  if (out->dtype == MSIT_DTYPE_UNSPECIFIED) return false;
  if (IsNarrow(object, out->dtype)) return false;
  const auto element_bytes = static_cast<int64_t>(msit_dtype_bytes(out->dtype));
  out->data = static_cast<const std::byte*>(seen.data) + seen.byte_offset;
  out->dim_count = seen.ndim;
  bool is_empty = false;
  for (int i = 0; i < seen.ndim; ++i) {
    out->dims[i] = seen.shape[i];
    out->byte_strides[i] = seen.strides[i] * element_bytes;
    is_empty |= seen.shape[i] == 0;
  }
  // The memory was released, or the tensor is a wrapper without memory.
  if (seen.data == nullptr && !is_empty) return false;
  if (IsLazy(object, out->dtype)) return false;
  PyObject* const answer = PyObject_GetAttr(object, requires_grad_.ptr());
  out->requires_grad =
      IsTrue(answer) ? MSIT_REQUIRES_GRAD_YES : MSIT_REQUIRES_GRAD_NO;
  return true;
}

bool TorchReader::IsNarrow(PyObject* object, int32_t dtype) const {
  if (dtype != MSIT_DTYPE_INT8 && dtype != MSIT_DTYPE_UINT8) return false;
  const nb::object& plain = dtype == MSIT_DTYPE_INT8 ? int8_ : uint8_;
  PyObject* const own = PyObject_GetAttr(object, dtype_.ptr());
  if (own == nullptr) {
    PyErr_Clear();
    return true;
  }
  const bool is_plain = own == plain.ptr();
  Py_DECREF(own);
  return !is_plain;
}

bool TorchReader::IsLazy(PyObject* object, int32_t dtype) const {
  const bool is_complex = dtype == MSIT_DTYPE_COMPLEX32 ||
                          dtype == MSIT_DTYPE_COMPLEX64 ||
                          dtype == MSIT_DTYPE_COMPLEX128;
  // Real views of conjugated numbers are negated.
  const bool may_be_part = dtype == MSIT_DTYPE_FLOAT16 ||
                           dtype == MSIT_DTYPE_FLOAT32 ||
                           dtype == MSIT_DTYPE_FLOAT64;
  if (!is_complex && !may_be_part) return false;
  if (IsTrue(Call(object, is_neg_))) return true;
  return is_complex && IsTrue(Call(object, is_conj_));
}

}  // namespace msitd::python
