// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msit/msit.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>

// Sees where the elements of tensors of torch lie, without linking torch.
namespace msitd::python {

struct ExchangeApi;

// The msit_dtype of a DLPack type; MSIT_DTYPE_UNSPECIFIED if there is none.
int32_t DTypeOf(nanobind::dlpack::dtype type);

// Reads ordinary tensors: of the classes of torch itself, dense, in host
// memory, of a dtype that records have. All others need more thought than fits
// here. Called with the GIL held; throws nothing.
class TorchReader {
 public:
  // Dimensions of a tensor that is read here. Others take the slower way.
  static constexpr int kDimsMax = 16;

  // What msit_tensor wants to know. `data` belongs to the tensor.
  struct Tensor {
    const void* data = nullptr;
    int32_t dtype = MSIT_DTYPE_UNSPECIFIED;
    int32_t dim_count = 0;
    int64_t dims[kDimsMax];
    int64_t byte_strides[kDimsMax];
    int32_t requires_grad = MSIT_REQUIRES_GRAD_UNKNOWN;

    // Sets all of these in `record`, which borrows the arrays.
    void Describe(msit_tensor* record) const;
  };

  // `exchange` is the capsule `__dlpack_c_exchange_api__` of torch.Tensor. The
  // classes outlive the reader.
  //
  // Throws nanobind::type_error if the capsule is of an unknown version.
  TorchReader(const nanobind::capsule& exchange, nanobind::type_object tensor,
              nanobind::type_object parameter);

  bool IsTensor(PyObject* object) const {
    PyTypeObject* const type = Py_TYPE(object);
    return reinterpret_cast<PyObject*>(type) == tensor_.ptr() ||
           reinterpret_cast<PyObject*>(type) == parameter_.ptr();
  }

  // True if `object` is an ordinary tensor. No exception is set then.
  bool Read(PyObject* object, Tensor* out) const;

 private:
  // True if the elements have fewer bits than `dtype`, which DLPack gives for
  // integers of 1 to 7 bits, too.
  bool IsNarrow(PyObject* object, int32_t dtype) const;

  // True if the elements are not what their bytes say: those of a view of
  // negated or conjugated numbers.
  bool IsLazy(PyObject* object, int32_t dtype) const;

  const ExchangeApi* api_;
  nanobind::type_object tensor_;
  nanobind::type_object parameter_;
  nanobind::str requires_grad_;
  nanobind::str dtype_;
  nanobind::object int8_;
  nanobind::object uint8_;
  nanobind::str is_neg_;
  nanobind::str is_conj_;
};

}  // namespace msitd::python
