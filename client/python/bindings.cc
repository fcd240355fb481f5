// SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>
#include <msit/msit.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <unistd.h>

#include <array>
#include <complex>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>

// The extension module `_msit`: msit.h for Python, and nothing more. Calls
// return an msit_code; the package turns it into values and exceptions. The GIL
// is released while the library copies or waits. An exception of a signal
// handler ends a call that waits.
namespace nb = nanobind;

namespace {

constexpr size_t kDimsMax = 32;

// Where a record belongs: device, token, op, call, io, index, placement.
using Place =
    std::tuple<std::optional<std::string>, int64_t, std::string, int32_t,
               int32_t, std::string, std::optional<std::string>>;

// What is known of a tensor: requires_grad, stack, identity.
using Facts = std::tuple<int32_t, std::optional<std::string>, uint64_t>;

struct Shape {
  std::array<int64_t, kDimsMax> dims;
  std::array<int64_t, kDimsMax> byte_strides;
  size_t count = 0;
};

nb::builtin_exception TooManyDims() {
  return nb::type_error("a tensor has at most 32 dimensions");
}

// Reads two sequences of integers in place. Casting them to std::vector would
// take most of the time of a small record.
Shape ReadShape(nb::handle dims, nb::handle strides, int64_t stride_unit) {
  Shape shape;
  shape.count = nb::len(dims);
  if (shape.count > kDimsMax) throw TooManyDims();
  if (nb::len(strides) != shape.count) {
    throw nb::type_error("as many strides as dimensions are needed");
  }
  for (size_t i = 0; i < shape.count; ++i) {
    shape.dims[i] = nb::cast<int64_t>(dims[i]);
    shape.byte_strides[i] = nb::cast<int64_t>(strides[i]) * stride_unit;
  }
  return shape;
}

// The msit_dtype of a DLPack type; 0 if there is none.
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

// A number of Python as libmsit takes it.
struct Scalar {
  int32_t dtype = MSIT_DTYPE_UNSPECIFIED;
  alignas(16) std::array<std::byte, 16> bytes{};
};

Scalar ReadScalar(nb::handle number) {
  Scalar scalar;
  const auto set = [&scalar](int32_t dtype, const auto& value) {
    scalar.dtype = dtype;
    std::memcpy(scalar.bytes.data(), &value, sizeof(value));
  };
  PyObject* const object = number.ptr();
  if (PyBool_Check(object)) {
    set(MSIT_DTYPE_BOOL, object == Py_True);
  } else if (PyLong_Check(object)) {
    set(MSIT_DTYPE_INT64, nb::cast<int64_t>(number));
  } else if (PyFloat_Check(object)) {
    set(MSIT_DTYPE_FLOAT64, PyFloat_AS_DOUBLE(object));
  } else if (PyComplex_Check(object)) {
    set(MSIT_DTYPE_COMPLEX128,
        std::complex<double>(PyComplex_RealAsDouble(object),
                             PyComplex_ImagAsDouble(object)));
  } else {
    throw nb::type_error("a number is a bool, int, float or complex");
  }
  return scalar;
}

// Owns a Py_buffer.
class Buffer {
 public:
  explicit Buffer(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_RECORDS_RO) != 0) {
      throw nb::python_error();
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { PyBuffer_Release(&view_); }
  const Py_buffer& view() const { return view_; }

 private:
  Py_buffer view_;
};

// Releases the GIL, and takes it back at the end of the scope.
//
// Once the interpreter is gone, Python unwinds a thread that wants the GIL, and
// C++ frames answer that by ending the process. Nobody waits for such a thread
// any more, so it sleeps until the process ends.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      while (true) ::pause();
    }
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

// Python runs signal handlers in its main thread only. Other threads must not
// ask for the GIL while they wait in the library, since the main thread may be
// taking the interpreter down.
int32_t HasSignal(void* main_thread) {
  if (PyThread_get_thread_ident() != *static_cast<uint64_t*>(main_thread)) {
    return 0;
  }
  const nb::gil_scoped_acquire acquire;
  if (PyErr_Occurred() != nullptr) return 1;
  // The exception stays set until Checked throws it.
  return PyErr_CheckSignals() == 0 ? 0 : 1;
}

// An exception may be set with any code: the handler may have run just before
// the call ended. Python accepts no result beside an exception.
int Checked(msit_code code) {
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return code;
}

// Returns `text` for a C string. A NUL byte inside would silently cut it.
const char* WithoutNul(const char* name, const std::string& text) {
  if (text.find('\0') != std::string::npos) {
    throw nb::value_error((std::string(name) + " has a NUL character").c_str());
  }
  return text.c_str();
}

class Client {
 public:
  Client(const std::optional<std::string>& endpoint, const std::string& run,
         int32_t rank, int32_t world_size, int64_t max_block_us,
         uint64_t buffer_bytes, int64_t linger_us, int64_t open_timeout_us,
         const std::string& device, const std::string& user_agent,
         int32_t overflow, int32_t if_exists,
         const std::optional<std::string>& job, uint64_t main_thread)
      : main_thread_(main_thread) {
    msit_options options{};
    options.struct_size = sizeof(options);
    msit_options_init(&options);
    options.endpoint = endpoint ? WithoutNul("endpoint", *endpoint) : nullptr;
    options.run = WithoutNul("run", run);
    options.rank = rank;
    options.world_size = world_size;
    options.max_block_us = max_block_us;
    options.buffer_bytes = buffer_bytes;
    options.linger_us = linger_us;
    options.open_timeout_us = open_timeout_us;
    options.device = WithoutNul("device", device);
    options.user_agent = user_agent.c_str();
    options.overflow = overflow;
    options.if_exists = if_exists;
    options.job = job ? job->c_str() : nullptr;
    options.is_interrupted = &HasSignal;
    options.interrupt_context = &main_thread_;
    try {
      open_code_ = Waiting([&] { return msit_open(&options, &client_); });
    } catch (...) {
      Free();
      throw;
    }
  }

  // May wait for the threads of the client.
  ~Client() { Free(); }

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  int open_code() const { return open_code_; }

  int RecordPointer(uintptr_t data, int32_t dtype, nb::handle dims,
                    nb::handle strides, int64_t stride_unit, const Place& place,
                    const Facts& facts) {
    const Shape shape = ReadShape(dims, strides, stride_unit);
    return Record(shape, dtype, reinterpret_cast<const void*>(data), place,
                  facts);
  }

  // `dtype` says what the buffer holds; the format of the buffer is ignored.
  int RecordBuffer(nb::handle object, int32_t dtype, const Place& place,
                   const Facts& facts) {
    const Buffer buffer(object);
    const Py_buffer& view = buffer.view();
    if (view.ndim > static_cast<int>(kDimsMax)) throw TooManyDims();
    if (static_cast<size_t>(view.itemsize) != msit_dtype_bytes(dtype)) {
      throw nb::type_error("the elements are not as long as the dtype says");
    }
    Shape shape;
    shape.count = static_cast<size_t>(view.ndim);
    for (size_t i = 0; i < shape.count; ++i) {
      shape.dims[i] = view.shape[i];
      shape.byte_strides[i] = view.strides[i];
    }
    return Record(shape, dtype, view.buf, place, facts);
  }

  int RecordDlpack(const nb::ndarray<nb::ro>& array, const Place& place,
                   const Facts& facts) {
    if (array.device_type() != nb::device::cpu::value) {
      throw nb::type_error("the tensor is not in host memory");
    }
    const int32_t dtype = DTypeOf(array.dtype());
    if (dtype == MSIT_DTYPE_UNSPECIFIED) {
      throw nb::type_error("the dtype of the DLPack tensor is not supported");
    }
    if (array.ndim() > kDimsMax) throw TooManyDims();
    Shape shape;
    shape.count = array.ndim();
    for (size_t i = 0; i < shape.count; ++i) {
      shape.dims[i] = static_cast<int64_t>(array.shape(i));
      shape.byte_strides[i] =
          array.stride(i) * static_cast<int64_t>(msit_dtype_bytes(dtype));
    }
    return Record(shape, dtype, array.data(), place, facts);
  }

  // `number` is a bool, int, float or complex if `kind` is MSIT_KIND_NUMBER.
  int RecordValue(int32_t kind, nb::handle number, const std::string& text,
                  const Place& place, const std::optional<std::string>& stack) {
    msit_tensor value = PlacedAt(place);
    Scalar scalar;
    if (kind == MSIT_KIND_NUMBER) {
      scalar = ReadScalar(number);
      value.dtype = scalar.dtype;
      value.data = scalar.bytes.data();
    }
    value.kind = kind;
    value.value = WithoutNul("value", text);
    value.stack = stack ? WithoutNul("stack", *stack) : nullptr;
    return Waiting([&] { return msit_record(client_, &value); });
  }

  int RecordStatistics(int32_t dtype, nb::handle dims, const std::string& text,
                       const Place& place, const Facts& facts) {
    const auto& [requires_grad, stack, identity] = facts;
    const Shape shape = ReadShape(dims, dims, 0);
    msit_tensor statistics = PlacedAt(place);
    statistics.dtype = dtype;
    statistics.dim_count = static_cast<int32_t>(shape.count);
    statistics.dims = shape.dims.data();
    statistics.kind = MSIT_KIND_STATISTICS;
    statistics.requires_grad = requires_grad;
    statistics.value = WithoutNul("value", text);
    statistics.stack = stack ? WithoutNul("stack", *stack) : nullptr;
    return Waiting([&] { return msit_record(client_, &statistics); });
  }

  int RecordDocument(const std::string& text, const Place& place) {
    const auto bytes = static_cast<int64_t>(text.size());
    msit_tensor document = PlacedAt(place);
    document.dim_count = 1;
    document.dims = &bytes;
    document.data = text.data();
    document.kind = MSIT_KIND_DOCUMENT;
    return Waiting([&] { return msit_record(client_, &document); });
  }

  bool Selects(int64_t token, const std::string& op, int32_t io) const {
    return msit_selects(client_, token, WithoutNul("op", op), io) != 0;
  }

  int64_t token() const { return msit_token(client_); }
  int64_t NextToken() { return msit_next_token(client_); }
  int SetToken(int64_t token) { return msit_set_token(client_, token); }

  std::tuple<int, int32_t> BeginCall(int64_t token, const std::string& op) {
    int32_t call = 0;
    const int code =
        msit_begin_call(client_, token, WithoutNul("op", op), &call);
    return {code, call};
  }

  int Flush(int64_t timeout_us) {
    return Waiting([&] { return msit_flush(client_, timeout_us); });
  }

  int Close(int64_t timeout_us) {
    return Waiting([&] { return msit_close(client_, timeout_us); });
  }

  // In the order of the fields of msit_counters.
  nb::tuple Counters() const {
    msit_counters counters{};
    counters.struct_size = sizeof(counters);
    {
      const GilReleased released;
      msit_get_counters(client_, &counters);
    }
    return nb::make_tuple(counters.recorded_count, counters.recorded_bytes,
                          counters.acknowledged_count,
                          counters.acknowledged_bytes, counters.dropped_count,
                          counters.invalid_count, counters.refused_chunk_count,
                          counters.reconnect_count, counters.filtered_count,
                          counters.truncated_count, counters.degraded_count,
                          counters.conflict_count, counters.aliased_count,
                          counters.aliased_bytes);
  }

  std::string Run() const {
    std::array<char, 256> text{};
    msit_run_name(client_, text.data(), text.size());
    return text.data();
  }

  std::string StreamError() const {
    std::array<char, 1024> text{};
    msit_stream_error(client_, text.data(), text.size());
    return text.data();
  }

 private:
  // Its texts are those of `place`.
  static msit_tensor PlacedAt(const Place& place) {
    const auto& [device, token, op, call, io, index, placement] = place;
    msit_tensor tensor{};
    tensor.struct_size = sizeof(tensor);
    tensor.device = device ? WithoutNul("device", *device) : nullptr;
    tensor.token = token;
    tensor.op = WithoutNul("op", op);
    tensor.call = call;
    tensor.io = io;
    tensor.index = WithoutNul("index", index);
    tensor.placement =
        placement ? WithoutNul("placement", *placement) : nullptr;
    return tensor;
  }

  int Record(const Shape& shape, int32_t dtype, const void* data,
             const Place& place, const Facts& facts) {
    const auto& [requires_grad, stack, identity] = facts;
    msit_tensor tensor = PlacedAt(place);
    tensor.dtype = dtype;
    tensor.dim_count = static_cast<int32_t>(shape.count);
    tensor.dims = shape.dims.data();
    tensor.byte_strides = shape.byte_strides.data();
    tensor.data = data;
    tensor.requires_grad = requires_grad;
    tensor.stack = stack ? WithoutNul("stack", *stack) : nullptr;
    tensor.identity = identity;
    return Waiting([&] { return msit_record(client_, &tensor); });
  }

  void Free() {
    // Nobody is there to raise to.
    main_thread_ = 0;
    const GilReleased released;
    msit_free(client_);
  }

  // Throws what a signal handler raised.
  template <typename Call>
  static int Waiting(Call call) {
    msit_code code = MSIT_OK;
    {
      const GilReleased released;
      code = call();
    }
    return Checked(code);
  }

  // Identity of the main thread; 0 to look for no signals.
  uint64_t main_thread_;
  msit_client* client_ = nullptr;
  int open_code_ = MSIT_OK;
};

}  // namespace

NB_MODULE(_msit, m) {
  // Threads that outlive the interpreter keep clients. That is no leak to print
  // in a process that is not ours.
  nb::set_leak_warnings(false);
  m.attr("OK") = static_cast<int>(MSIT_OK);
  m.attr("INVALID_ARGUMENT") = static_cast<int>(MSIT_ERROR_INVALID_ARGUMENT);
  m.attr("DROPPED") = static_cast<int>(MSIT_ERROR_DROPPED);
  m.attr("TIMEOUT") = static_cast<int>(MSIT_ERROR_TIMEOUT);
  m.attr("UNAVAILABLE") = static_cast<int>(MSIT_ERROR_UNAVAILABLE);
  m.attr("REFUSED") = static_cast<int>(MSIT_ERROR_REFUSED);
  m.attr("UNKNOWN_IDENTITY") = static_cast<int>(MSIT_ERROR_UNKNOWN_IDENTITY);
  m.attr("CLOSED") = static_cast<int>(MSIT_ERROR_CLOSED);
  m.attr("FORKED") = static_cast<int>(MSIT_ERROR_FORKED);
  m.def("last_error", [] { return std::string(msit_last_error()); });
  m.def("version", [] { return std::string(msit_version()); });
  m.def("dtype_from_name", [](const std::string& name) {
    return msit_dtype_from_name(name.c_str());
  });
  m.def("dtype_bytes", [](int32_t dtype) { return msit_dtype_bytes(dtype); });

  nb::class_<Client>(m, "Client")
      .def(nb::init<const std::optional<std::string>&, const std::string&,
                    int32_t, int32_t, int64_t, uint64_t, int64_t, int64_t,
                    const std::string&, const std::string&, int32_t, int32_t,
                    const std::optional<std::string>&, uint64_t>(),
           nb::arg("endpoint").none(), nb::arg("run"), nb::arg("rank"),
           nb::arg("world_size"), nb::arg("max_block_us"),
           nb::arg("buffer_bytes"), nb::arg("linger_us"),
           nb::arg("open_timeout_us"), nb::arg("device"), nb::arg("user_agent"),
           nb::arg("overflow"), nb::arg("if_exists"), nb::arg("job").none(),
           nb::arg("main_thread"))
      .def_prop_ro("open_code", &Client::open_code)
      .def("record_pointer", &Client::RecordPointer)
      .def("record_buffer", &Client::RecordBuffer)
      .def("record_dlpack", &Client::RecordDlpack)
      .def("record_value", &Client::RecordValue, nb::arg(), nb::arg().none(),
           nb::arg(), nb::arg(), nb::arg().none())
      .def("record_document", &Client::RecordDocument)
      .def("record_statistics", &Client::RecordStatistics)
      .def("selects", &Client::Selects)
      .def("token", &Client::token)
      .def("next_token", &Client::NextToken)
      .def("set_token", &Client::SetToken)
      .def("begin_call", &Client::BeginCall)
      .def("flush", &Client::Flush)
      .def("close", &Client::Close)
      .def("counters", &Client::Counters)
      .def("run", &Client::Run)
      .def("stream_error", &Client::StreamError);
}
