// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/python/torch_reader.h"

namespace msitd::python {

// Numbers that identify the bytes of torch tensors within one token, for one
// thread that holds the GIL.
//
// A tensor keeps its number while torch counts no change of its bytes, and
// while there is no collective, which may change them. Each number is given
// once per process, across models and threads. Tensors that are not ordinary
// for a TorchReader are read through their Python attributes.
class Identities {
 public:
  // Maximum number of tensors remembered. The native client remembers no more.
  static constexpr size_t kTensorsMax = 16384;

  // `reader` is a TorchReader, or None. Throws nanobind::python_error if torch
  // cannot be imported.
  explicit Identities(nanobind::object reader);
  ~Identities() { Clear(); }
  Identities(const Identities&) = delete;
  Identities& operator=(const Identities&) = delete;

  // Returns the number of `tensor`, an object of torch.Tensor or of a subclass;
  // 0 if its changes cannot be detected. Throws nanobind::python_error.
  uint64_t Of(nanobind::handle tensor);
  // The same for a tensor that the reader has found ordinary.
  uint64_t Of(nanobind::handle tensor, const TorchReader::Tensor& seen);

  // Forgets all tensors.
  void Clear();

  // Number of tensors remembered.
  size_t size() const { return numbers_.size(); }

 private:
  // Names of attributes of a tensor, and objects of torch that they are
  // compared with.
  struct Torch {
    Torch();

    nanobind::object tensor;
    nanobind::object parameter;
    nanobind::object strided;
    nanobind::object free_weak_reference;
    nanobind::str layout, is_inference, is_neg, is_conj, untyped_storage, cdata,
        version, data_ptr, shape, stride, dtype, base, weak_reference, dim,
        is_floating_point, requires_grad;
  };

  // These do not handle exceptions of tensors without a storage.
  uint64_t NumberOf(nanobind::handle tensor);
  uint64_t NumberOf(nanobind::handle tensor, const TorchReader::Tensor& seen);
  // Returns the number of the tensor with these properties.
  uint64_t NumberOf(std::string key, int64_t address, nanobind::handle storage);
  bool HasUncountedChanges(nanobind::handle tensor) const;
  bool MayBeStatistics(nanobind::handle tensor,
                       std::span<const int64_t> dims) const;
  // Keeps other storages from getting the address of this one.
  void Hold(int64_t address, nanobind::handle storage);

  nanobind::object reader_object_;
  // Null without a reader.
  const TorchReader* reader_;
  Torch torch_;
  // By the properties that determine the bytes.
  std::unordered_map<std::string, uint64_t> numbers_;
  // Storages by address, with a weak reference of torch.
  std::unordered_map<int64_t, int64_t> storages_;
};

}  // namespace msitd::python
