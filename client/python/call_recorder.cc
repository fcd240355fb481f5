// SPDX-License-Identifier: Apache-2.0
#include "client/python/call_recorder.h"

#include <utility>

#include "client/python/call_tuple.h"

namespace nb = nanobind;

namespace msitd::python {
namespace {

// Returns whether `token` is one of `tokens`, a collection or None.
bool IsIn(nb::handle tokens, nb::handle token) {
  if (tokens.is_none()) return true;
  const int is_in = PySequence_Contains(tokens.ptr(), token.ptr());
  if (is_in < 0) throw nb::python_error();
  return is_in != 0;
}

// Names of attributes. Interned, because a string that is made for each access
// takes longer than the access.
struct Names {
  static nb::str Intern(const char* name) {
    return nb::steal<nb::str>(PyUnicode_InternFromString(name));
  }
  // Never destroyed, because the interpreter may end first.
  static const Names& Get() {
    static const Names& names = *new Names;
    return names;
  }

  const nb::str depth = Intern("depth");
  const nb::str token = Intern("token");
  const nb::str calls = Intern("calls");
  const nb::str identities = Intern("identities");
};

// `calls` is a list.
void Append(nb::handle calls, nb::handle call) {
  if (PyList_Append(calls.ptr(), call.ptr()) != 0) throw nb::python_error();
}

}  // namespace

CallRecorder::CallRecorder(nb::object shared, nb::str op, nb::object off)
    : shared_object_(std::move(shared)),
      shared_(nb::cast<const Shared&>(shared_object_)),
      op_(std::move(op)),
      off_(std::move(off)),
      client_(nb::cast<Client&>(shared_.client).get()),
      input_side_(SideOf(shared_.input_side)),
      output_side_(SideOf(shared_.output_side)) {}

bool CallRecorder::Begin(nb::handle forward, const nb::tuple& args,
                         const nb::dict& kwargs) {
  const RecordingScope scope(client_);
  const Names& names = Names::Get();
  if (nb::cast<int>(forward.attr(names.depth)) == 0) return false;
  const nb::object token = forward.attr(names.token);
  const auto token_number = nb::cast<int64_t>(token);
  const nb::object calls = forward.attr(names.calls);
  constexpr int32_t kAnyIo = 0;
  if (!IsIn(shared_.tokens, token) ||
      msit_selects(client_, token_number, op_.c_str(), kAnyIo) == 0) {
    Append(calls, off_);
    return true;
  }
  if (shared_.backward_ops.size() != 0 ||
      !IsOutsideOfBackward(shared_.backward_id)) {
    return false;
  }
  int32_t number = 0;
  if (msit_begin_call(client_, token_number, op_.c_str(), &number) != MSIT_OK) {
    return false;
  }
  const nb::tuple call =
      MakeCall(shared_.call_type, op_, token, number, nb::none());
  Append(calls, call);
  if (!has_begun_) {
    has_begun_ = true;
    if (PySet_Add(shared_.begun.ptr(), op_.ptr()) != 0 ||
        PySet_Discard(shared_.uncalled.ptr(), op_.ptr()) < 0) {
      throw nb::python_error();
    }
  }
  if (input_side_ != nullptr) {
    input_side_->RecordArguments(args, kwargs, call, Identities());
  }
  return true;
}

bool CallRecorder::End(nb::handle forward, nb::handle result) const {
  const RecordingScope scope(client_);
  const nb::object calls = forward.attr(Names::Get().calls);
  const Py_ssize_t count = PyList_Size(calls.ptr());
  if (count < 0) throw nb::python_error();
  if (count == 0) return true;
  const nb::object last = nb::borrow(PyList_GetItem(calls.ptr(), count - 1));
  const bool is_off = last.is(off_);
  if (!is_off) {
    if (!PyTuple_Check(last.ptr()) ||
        PyTuple_Size(last.ptr()) != kCallFieldCount) {
      return false;
    }
    const auto call = nb::borrow<nb::tuple>(last);
    if (!FieldOf(call, kOp).is(op_) || !FieldOf(call, kInputs).is_none() ||
        !FieldOf(call, kIsAgain).is(Py_False)) {
      return false;
    }
  }
  if (PyList_SetSlice(calls.ptr(), count - 1, count, nullptr) != 0) {
    throw nb::python_error();
  }
  if (!is_off && output_side_ != nullptr && !result.is_none()) {
    output_side_->RecordResult(result, nb::borrow<nb::tuple>(last),
                               Identities());
  }
  return true;
}

nb::object CallRecorder::Identities() const {
  if (!shared_.has_aliases) return nb::none();
  return shared_.thread.attr(Names::Get().identities)();
}

}  // namespace msitd::python
