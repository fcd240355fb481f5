// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msit/msit.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>

// Reads the memory location of torch tensors without linking torch.
namespace msitd::python {

struct ExchangeApi;

// Returns the msit_dtype of a DLPack type; MSIT_DTYPE_UNSPECIFIED if there is
// none.
int32_t DTypeOf(nanobind::dlpack::dtype type);

// Reads ordinary tensors: of the classes of torch itself, dense, in host
// memory, and of a dtype that records support. All other tensors are handled in
// Python. Must be called with the GIL held; throws nothing.
class TorchReader {
 public:
  // Maximum number of dimensions of an ordinary tensor. Others take the slower
  // path.
  static constexpr int kDimsMax = 16;

  // The properties that msit_tensor needs. `data` belongs to the tensor.
  struct Tensor {
    const void* data = nullptr;
    int32_t dtype = MSIT_DTYPE_UNSPECIFIED;
    int32_t dim_count = 0;
    int64_t dims[kDimsMax];
    int64_t byte_strides[kDimsMax];
    int32_t requires_grad = MSIT_REQUIRES_GRAD_UNKNOWN;

    // Copies the properties to `record`, which borrows the arrays.
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

  // Returns true if a tensor for which IsTensor holds has memory on any device.
  // Objects that stand for tensors while a graph is made have none.
  bool HasMemory(PyObject* object) const;

  // Returns true if `object` is an ordinary tensor. No exception is set in that
  // case.
  bool Read(PyObject* object, Tensor* out) const;

 private:
  // Returns true if the elements have fewer bits than `dtype`. DLPack reports
  // the type of a whole byte also for integers of 1 to 7 bits.
  bool IsNarrow(PyObject* object, int32_t dtype) const;

  // Returns true if the elements differ from their bytes, as in views of
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
