// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/tensor_file.h"

// The extension module `_formats`: client/foreign/formats for Python. It is
// separate from `_msit`, so that a process that records does not load its
// libraries.
namespace nb = nanobind;

namespace {

using msitd::formats::Attributes;
using msitd::formats::ForeignTensor;
using msitd::formats::kReadBytesMin;
using msitd::formats::TensorFile;

// Name, io, index, dtype, shape, bytes, attributes, problem, is_absent.
using Tensor =
    std::tuple<std::string, std::string, std::string, std::string,
               std::vector<int64_t>, uint64_t, Attributes, std::string, bool>;

std::string MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

[[noreturn]] void Throw(const absl::Status& status) {
  const std::string message = MessageOf(status);
  if (status.code() == absl::StatusCode::kNotFound) {
    PyErr_SetString(PyExc_FileNotFoundError, message.c_str());
  } else {
    PyErr_SetString(PyExc_ValueError, message.c_str());
  }
  throw nb::python_error();
}

// A file that is read from its first tensor to its last.
class File {
 public:
  explicit File(const std::string& path) {
    absl::StatusOr<std::unique_ptr<TensorFile>> file;
    {
      const nb::gil_scoped_release released;
      file = msitd::formats::OpenTensorFile(path, {});
    }
    if (!file.ok()) Throw(file.status());
    file_ = *std::move(file);
  }

  std::string kind() const {
    return std::string(msitd::formats::FileKindName(file_->kind()));
  }
  Attributes attributes() const { return file_->attributes(); }

  // Advances to the next tensor. Returns None after the last one.
  nb::object Next() {
    tensor_ = file_->Next();
    if (tensor_ == nullptr) return nb::none();
    const bool has_io = tensor_->io != msitd::Io::kUnspecified;
    return nb::cast(Tensor(
        tensor_->name, has_io ? std::string(msitd::IoName(tensor_->io)) : "",
        tensor_->index, std::string(msitd::DTypeName(tensor_->dtype)),
        tensor_->shape, tensor_->bytes, tensor_->attributes,
        MessageOf(tensor_->problem), tensor_->is_absent));
  }

  // Returns all elements of the current tensor at once.
  nb::object Read() {
    if (tensor_ == nullptr) throw nb::value_error("no tensor is open");
    if (!tensor_->problem.ok()) Throw(tensor_->problem);
    const nb::object array = nb::steal(PyByteArray_FromStringAndSize(
        nullptr, static_cast<Py_ssize_t>(tensor_->bytes)));
    if (!array.is_valid()) throw nb::python_error();
    const auto begin =
        reinterpret_cast<std::byte*>(PyByteArray_AsString(array.ptr()));
    absl::Status status;
    {
      const nb::gil_scoped_release released;
      status = ReadTo({begin, tensor_->bytes});
    }
    if (!status.ok()) Throw(status);
    return array;
  }

 private:
  absl::Status ReadTo(std::span<std::byte> out) {
    std::array<std::byte, kReadBytesMin> last;
    while (!out.empty()) {
      const bool is_last = out.size() < last.size();
      const auto count =
          file_->Read(is_last ? std::span<std::byte>(last) : out);
      if (!count.ok()) return count.status();
      if (*count == 0 || *count > out.size()) {
        return absl::DataLossError("the tensor has another length");
      }
      if (is_last) std::memcpy(out.data(), last.data(), *count);
      out = out.subspan(*count);
    }
    return absl::OkStatus();
  }

  std::unique_ptr<TensorFile> file_;
  // Owned by `file_`.
  const ForeignTensor* tensor_ = nullptr;
};

}  // namespace

NB_MODULE(_formats, m) {
  nb::set_leak_warnings(false);
  nb::class_<File>(m, "File")
      .def(nb::init<const std::string&>())
      .def_prop_ro("kind", &File::kind)
      .def_prop_ro("attributes", &File::attributes)
      .def("next", &File::Next)
      .def("read", &File::Read);
}
