// SPDX-License-Identifier: Apache-2.0
#include <msit/msit.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <string>

#include "client/python/call_recorder.h"
#include "client/python/function_recorder.h"
#include "client/python/identities.h"
#include "client/python/known_children.h"
#include "client/python/native_client.h"
#include "client/python/side_recorder.h"
#include "client/python/torch_reader.h"

// The extension module `_msit`: msit.h for Python, and the recording of
// ordinary tensors of torch without Python.
namespace nb = nanobind;

using msitd::python::CallRecorder;
using msitd::python::Client;
using msitd::python::FunctionRecorder;
using msitd::python::Identities;
using msitd::python::KnownChildren;
using msitd::python::Recording;
using msitd::python::Reservation;
using msitd::python::SideRecorder;
using msitd::python::TorchReader;

namespace {

void AddRecorders(nb::module_& m) {
  nb::class_<TorchReader>(m, "TorchReader")
      .def(nb::init<const nb::capsule&, nb::type_object, nb::type_object>());

  nb::class_<Identities>(m, "Identities")
      .def(nb::init<nb::object>(), nb::arg("reader").none())
      .def("of", nb::overload_cast<nb::handle>(&Identities::Of))
      .def("clear", &Identities::Clear)
      .def("__len__", &Identities::size);

  nb::class_<KnownChildren>(m, "KnownChildren")
      .def(nb::init<>())
      .def("add", &KnownChildren::Add)
      .def("have_changed", &KnownChildren::HaveChanged);

  nb::class_<SideRecorder>(m, "SideRecorder")
      .def(nb::init<nb::object, nb::object, nb::str, int32_t, bool,
                    nb::object>())
      .def("record_arguments", &SideRecorder::RecordArguments, nb::arg(),
           nb::arg(), nb::arg(), nb::arg().none())
      .def("record_result", &SideRecorder::RecordResult, nb::arg().none(),
           nb::arg(), nb::arg().none());

  nb::class_<Recording>(m, "Recording")
      .def(nb::init<nb::object>())
      .def("enter", &Recording::Enter)
      .def("leave", &Recording::Leave)
      .def("__enter__", &Recording::Enter)
      .def("__exit__",
           [](Recording& recording, const nb::args&) { recording.Leave(); });

  nb::class_<CallRecorder::Shared>(m, "SharedByCalls")
      .def(nb::init<nb::object, nb::object, nb::object, nb::object, bool,
                    nb::object, nb::set, nb::set, nb::set, nb::object,
                    nb::object>(),
           nb::arg("client"), nb::arg("thread"), nb::arg("input_side").none(),
           nb::arg("output_side").none(), nb::arg("has_aliases"),
           nb::arg("tokens").none(), nb::arg("begun"), nb::arg("uncalled"),
           nb::arg("backward_ops"), nb::arg("call_type"),
           nb::arg("backward_id"));

  nb::class_<CallRecorder>(m, "CallRecorder")
      .def(nb::init<nb::object, nb::str, nb::object>())
      .def("begin", &CallRecorder::Begin)
      .def("end", &CallRecorder::End, nb::arg(), nb::arg().none());

  nb::class_<FunctionRecorder>(m, "FunctionRecorder")
      .def(nb::init<nb::object, nb::object, nb::object, nb::object, nb::tuple,
                    nb::object, nb::object>(),
           nb::arg("client"), nb::arg("reader"), nb::arg("input_side").none(),
           nb::arg("output_side").none(), nb::arg("special"),
           nb::arg("call_type"), nb::arg("backward_id"))
      .def("begin", &FunctionRecorder::Begin, nb::arg(), nb::arg(),
           nb::arg().none(), nb::arg(), nb::arg(), nb::arg().none())
      .def("end", &FunctionRecorder::End, nb::arg(), nb::arg().none(),
           nb::arg().none());
}

}  // namespace

NB_MODULE(_msit, m) {
  // Threads that outlive the interpreter keep clients alive. nanobind must not
  // report these as leaks in a process of another program.
  nb::set_leak_warnings(false);
  m.attr("OK") = static_cast<int>(MSIT_OK);
  m.attr("INVALID_ARGUMENT") = static_cast<int>(MSIT_ERROR_INVALID_ARGUMENT);
  m.attr("DROPPED") = static_cast<int>(MSIT_ERROR_DROPPED);
  m.attr("TIMEOUT") = static_cast<int>(MSIT_ERROR_TIMEOUT);
  m.attr("UNAVAILABLE") = static_cast<int>(MSIT_ERROR_UNAVAILABLE);
  m.attr("REFUSED") = static_cast<int>(MSIT_ERROR_REFUSED);
  m.attr("UNKNOWN_IDENTITY") = static_cast<int>(MSIT_ERROR_UNKNOWN_IDENTITY);
  m.attr("TOO_LARGE") = static_cast<int>(MSIT_ERROR_TOO_LARGE);
  m.attr("CLOSED") = static_cast<int>(MSIT_ERROR_CLOSED);
  m.attr("FORKED") = static_cast<int>(MSIT_ERROR_FORKED);
  m.def("last_error", [] { return std::string(msit_last_error()); });
  m.def("version", [] { return std::string(msit_version()); });
  m.def("dtype_from_name", [](const std::string& name) {
    return msit_dtype_from_name(name.c_str());
  });
  m.def("dtype_bytes", [](int32_t dtype) { return msit_dtype_bytes(dtype); });

  AddRecorders(m);
  nb::class_<Reservation>(m, "Reservation")
      .def("spans", &Reservation::Spans)
      .def("publish", &Reservation::Publish);

  nb::class_<Client>(m, "Client")
      .def(nb::init<const std::optional<std::string>&, const std::string&,
                    int32_t, int32_t, int64_t, std::optional<uint64_t>, int64_t,
                    int64_t, const std::string&, const std::string&, int32_t,
                    int32_t, const std::optional<std::string>&, uint64_t>(),
           nb::arg("endpoint").none(), nb::arg("run"), nb::arg("rank"),
           nb::arg("world_size"), nb::arg("max_block_us"),
           nb::arg("buffer_bytes").none(), nb::arg("linger_us"),
           nb::arg("open_timeout_us"), nb::arg("device"), nb::arg("user_agent"),
           nb::arg("overflow"), nb::arg("if_exists"), nb::arg("job").none(),
           nb::arg("main_thread"))
      .def_prop_ro("open_code", &Client::open_code)
      .def("record_pointer", &Client::RecordPointer)
      .def("record_buffer", &Client::RecordBuffer)
      .def("record_dlpack", &Client::RecordDlpack)
      .def("record_torch", &Client::RecordTorch)
      .def("reserve", &Client::Reserve)
      .def("memory", &Client::Memory)
      .def("record_value", &Client::RecordValue, nb::arg(), nb::arg().none(),
           nb::arg(), nb::arg(), nb::arg().none())
      .def("record_document", &Client::RecordDocument)
      .def("record_statistics", &Client::RecordStatistics)
      .def("level_of", &Client::LevelOf, nb::arg().none(), nb::arg(), nb::arg(),
           nb::arg())
      .def("selects", &Client::Selects)
      .def("selection", &Client::Selection)
      .def("token", &Client::TokenReference)
      .def("token_number", &Client::TokenNumber)
      .def("next_token", &Client::NextToken)
      .def("set_token", &Client::SetToken)
      .def("begin_call", &Client::BeginCall)
      .def("flush", &Client::Flush)
      .def("close", &Client::Close)
      .def("counters", &Client::Counters)
      .def("run", &Client::Run)
      .def("stream_error", &Client::StreamError);
}
