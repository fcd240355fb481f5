// SPDX-License-Identifier: Apache-2.0
#include "client/python/side_recorder.h"

#include <cstring>
#include <utility>

#include "client/python/gil.h"
#include "client/python/identities.h"

namespace nb = nanobind;

namespace msitd::python {
namespace {

// The same as in `walk` and `leaves` in Python, which handle larger structures.
constexpr int kDepthMax = 16;
constexpr int kValuesMax = 256;

// Returns the text of a str that UTF-8 can encode and that has no NUL; null for
// others.
const char* TextOf(PyObject* text) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) PyErr_Clear();
  const bool is_whole =
      bytes != nullptr && std::strlen(bytes) == static_cast<size_t>(size);
  return is_whole ? bytes : nullptr;
}

// Returns whether the index of the value at `key` may be equal to another index
// on the same side of a call. Python code then resolves the conflict.
bool MayRepeat(PyObject* key) {
  if (!PyUnicode_CheckExact(key)) return true;
  const char* const text = TextOf(key);
  if (text == nullptr || *text == '\0') return true;
  const bool is_number = *text >= '0' && *text <= '9';
  return is_number || std::strchr(text, '.') != nullptr;
}

// Returns whether that holds for any key of a dict in `value`.
bool HasKeyThatMayRepeat(PyObject* value, int depth) {
  if (depth >= kDepthMax) return false;
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(value); ++i) {
      if (HasKeyThatMayRepeat(PyTuple_GetItem(value, i), depth + 1))
        return true;
    }
  } else if (PyList_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyList_Size(value); ++i) {
      const nb::object item = nb::borrow(PyList_GetItem(value, i));
      if (HasKeyThatMayRepeat(item.ptr(), depth + 1)) return true;
    }
  } else if (PyDict_CheckExact(value)) {
    const nb::list items = nb::steal<nb::list>(PyDict_Items(value));
    for (nb::handle item : items) {
      if (MayRepeat(PyTuple_GetItem(item.ptr(), 0)) ||
          HasKeyThatMayRepeat(PyTuple_GetItem(item.ptr(), 1), depth + 1)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

// One side of one call. `record_` has the parts of a record that all leaves
// share.
class SideRecorder::Walk {
 public:
  Walk(const SideRecorder& side, const nb::tuple& call, nb::handle identities)
      : side_(side), call_(call), identities_(identities) {
    // A Call starts with op, token, number and stack.
    constexpr size_t kFieldsMin = 4;
    if (nb::len(call) < kFieldsMin) throw nb::type_error("this is no Call");
    record_.struct_size = sizeof(record_);
    record_.op = TextOf(nb::handle(call[0]).ptr());
    record_.token = nb::cast<int64_t>(call[1]);
    record_.call = nb::cast<int32_t>(call[2]);
    const nb::handle stack = call[3];
    record_.stack = stack.is_none() ? nullptr : TextOf(stack.ptr());
    record_.io = side.io_number_;
  }

  bool IsAskedFor() const {
    return record_.call >= 0 && record_.op != nullptr &&
           msit_selects(side_.native_, record_.token, record_.op, record_.io) !=
               0;
  }

  // Records `value`, whose index is the current path.
  void Visit(PyObject* value, int depth) {
    if (side_.tensors_.IsTensor(value)) {
      VisitTensor(value, depth);
    } else if (PyTuple_CheckExact(value) && depth < kDepthMax &&
               PyTuple_Size(value) != 0) {
      for (Py_ssize_t i = 0; i < PyTuple_Size(value); ++i) {
        VisitAt(i, PyTuple_GetItem(value, i), depth + 1);
      }
    } else if (PyList_CheckExact(value) && depth < kDepthMax &&
               PyList_Size(value) != 0) {
      // Other threads may change a list at the same time.
      for (Py_ssize_t i = 0; i < PyList_Size(value); ++i) {
        const nb::object item = nb::borrow(PyList_GetItem(value, i));
        VisitAt(i, item.ptr(), depth + 1);
      }
    } else if (PyDict_CheckExact(value) && depth < kDepthMax &&
               PyDict_Size(value) != 0) {
      VisitItems(value, depth + 1);
    } else if (!VisitValue(value)) {
      VisitOther(value, nb::str(path_.c_str()), depth);
    }
  }

  void VisitAt(Py_ssize_t position, PyObject* value, int depth) {
    const size_t length = Enter(std::to_string(position));
    Visit(value, depth);
    Leave(length);
  }

  // Visits the values of a dict by key.
  void VisitItems(PyObject* dict, int depth) {
    const nb::list items = nb::steal<nb::list>(PyDict_Items(dict));
    for (nb::handle item : items) {
      PyObject* const value = PyTuple_GetItem(item.ptr(), 1);
      const nb::str key(nb::handle(PyTuple_GetItem(item.ptr(), 0)));
      const char* const text = TextOf(key.ptr());
      if (text == nullptr) {
        nb::object path = key;
        if (!path_.empty()) path = nb::str(path_.c_str()) + nb::str(".") + key;
        VisitOther(value, path, depth);
        continue;
      }
      const size_t length = Enter(text);
      Visit(value, depth);
      Leave(length);
    }
  }

  void VisitOther(PyObject* value, const nb::object& path, int depth) {
    value_count_ = nb::cast<int>(
        side_.record_other_(nb::handle(value), path, depth, side_.io_, call_,
                            identities_, value_count_));
  }

 private:
  // Appends a child to the path, and returns the path's earlier length.
  size_t Enter(std::string_view key) {
    const size_t length = path_.size();
    if (length != 0) path_ += '.';
    path_ += key;
    ++key_count_;
    return length;
  }

  void Leave(size_t length) {
    path_.resize(length);
    --key_count_;
  }

  // The only leaf of a result has no key.
  const char* Index() const { return key_count_ == 0 ? "0" : path_.c_str(); }

  void VisitTensor(PyObject* value, int depth) {
    TorchReader::Tensor seen;
    if (!side_.tensors_.Read(value, &seen))
      return VisitOther(value, nb::str(path_.c_str()), depth);
    msit_tensor record = record_;
    seen.Describe(&record);
    record.index = Index();
    Keep(value, [&] {
      if (!identities_.is_none()) {
        record.identity = nb::cast<Identities&>(identities_).Of(value, seen);
      }
      Record(record, value);
    });
  }

  // Returns false if Python must decide how `value` is recorded.
  bool VisitValue(PyObject* value) {
    msit_tensor record = record_;
    Scalar scalar;
    nb::object text;
    if (value == Py_None) {
      record.kind = MSIT_KIND_NONE;
      record.value = "None";
    } else if (value == Py_True || value == Py_False) {
      record.kind = MSIT_KIND_NUMBER;
      record.value = value == Py_True ? "True" : "False";
    } else if (PyLong_CheckExact(value) || PyFloat_CheckExact(value)) {
      int is_long = 0;
      if (PyLong_CheckExact(value))
        PyLong_AsLongLongAndOverflow(value, &is_long);
      if (is_long != 0) return false;
      record.kind = MSIT_KIND_NUMBER;
      text = nb::repr(nb::handle(value));
      record.value = TextOf(text.ptr());
    } else if (PyUnicode_CheckExact(value)) {
      record.kind = MSIT_KIND_TEXT;
      record.value = TextOf(value);
    } else {
      return false;
    }
    if (!side_.keeps_values_) return true;
    if (record.value == nullptr || value_count_ >= kValuesMax) return false;
    if (record.kind == MSIT_KIND_NUMBER) {
      scalar = ReadScalar(nb::handle(value));
      record.dtype = scalar.dtype;
      record.data = scalar.bytes.data();
    }
    ++value_count_;
    record.index = Index();
    Keep(value, [&] { Record(record, value); });
    return true;
  }

  // Runs the function that records `leaf`. An Exception that it raises is
  // counted for the leaf. Other exceptions, such as KeyboardInterrupt,
  // propagate.
  template <typename Function>
  void Keep(PyObject* leaf, Function record) const {
    try {
      record();
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_Exception)) throw;
      Fail(leaf, error.value());
    }
  }

  void Record(const msit_tensor& record, PyObject* leaf) const {
    msit_client* const client = side_.native_;
    const int code = WithoutGil([&] { return msit_record(client, &record); });
    if (code != MSIT_OK) Fail(leaf, nb::int_(code));
  }

  void Fail(PyObject* leaf, nb::handle problem) const {
    side_.note_failure_(nb::handle(leaf), Index(), side_.io_, call_, problem);
  }

  const SideRecorder& side_;
  const nb::tuple& call_;
  const nb::handle identities_;
  msit_tensor record_{};
  // Keys and positions of the enclosing structures, separated by dots.
  std::string path_;
  int key_count_ = 0;
  int value_count_ = 0;
};

SideRecorder::SideRecorder(nb::object client, nb::object reader, nb::str io,
                           int32_t io_number, bool keeps_values,
                           nb::object leaves)
    : client_(std::move(client)),
      reader_(std::move(reader)),
      io_(std::move(io)),
      io_number_(io_number),
      keeps_values_(keeps_values),
      record_other_(leaves.attr("record_other")),
      record_arguments_(leaves.attr("record_arguments")),
      note_failure_(leaves.attr("note_failure")),
      native_(nb::cast<Client&>(client_).get()),
      tensors_(nb::cast<const TorchReader&>(reader_)) {}

void SideRecorder::RecordArguments(const nb::tuple& args,
                                   const nb::dict& kwargs,
                                   const nb::tuple& call,
                                   nb::handle identities) const {
  const RecordingScope scope(native_);
  Walk walk(*this, call, identities);
  if (!walk.IsAskedFor()) return;
  if (HasKeyThatMayRepeat(args.ptr(), -1) ||
      HasKeyThatMayRepeat(kwargs.ptr(), -1)) {
    record_arguments_(args, kwargs, io_, call, identities);
    return;
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(args.ptr()); ++i) {
    walk.VisitAt(i, PyTuple_GetItem(args.ptr(), i), 0);
  }
  if (PyDict_Size(kwargs.ptr()) != 0) walk.VisitItems(kwargs.ptr(), 0);
}

void SideRecorder::RecordResult(nb::handle result, const nb::tuple& call,
                                nb::handle identities) const {
  const RecordingScope scope(native_);
  Walk walk(*this, call, identities);
  if (!walk.IsAskedFor()) return;
  if (HasKeyThatMayRepeat(result.ptr(), 0)) {
    walk.VisitOther(result.ptr(), nb::str(""), 0);
  } else {
    walk.Visit(result.ptr(), 0);
  }
}

const SideRecorder* SideOf(nb::handle object) {
  return object.is_none() ? nullptr : &nb::cast<const SideRecorder&>(object);
}

}  // namespace msitd::python
