// SPDX-License-Identifier: Apache-2.0
#include "client/python/native_client.h"

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <span>
#include <utility>

#include "client/python/gil.h"

namespace nb = nanobind;

namespace msitd::python {
namespace {

constexpr size_t kDimsMax = 32;

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

// Returns `text` for a C string. A NUL byte inside would silently cut it.
const char* WithoutNul(const char* name, const std::string& text) {
  if (text.find('\0') != std::string::npos) {
    throw nb::value_error((std::string(name) + " has a NUL character").c_str());
  }
  return text.c_str();
}

// The result refers to the dimensions in `shape`.
void SetShape(const Shape& shape, msit_tensor* tensor) {
  tensor->dim_count = static_cast<int32_t>(shape.count);
  tensor->dims = shape.dims.data();
  tensor->byte_strides = shape.byte_strides.data();
}

// The result refers to the texts in `place`.
msit_tensor PlacedAt(const Place& place) {
  const auto& [device, token, op, call, io, index, placement] = place;
  msit_tensor tensor{};
  tensor.struct_size = sizeof(tensor);
  tensor.device = device ? WithoutNul("device", *device) : nullptr;
  tensor.token = token;
  tensor.op = WithoutNul("op", op);
  tensor.call = call;
  tensor.io = io;
  tensor.index = WithoutNul("index", index);
  tensor.placement = placement ? WithoutNul("placement", *placement) : nullptr;
  return tensor;
}

nb::list ListOf(std::span<const msit_span> spans) {
  nb::list list;
  for (const msit_span& span : spans) {
    list.append(
        nb::make_tuple(reinterpret_cast<uintptr_t>(span.data), span.bytes));
  }
  return list;
}

}  // namespace

Reservation::~Reservation() {
  if (handle_ != nullptr && !is_known_) msit_publish(handle_, 0);
}

nb::list Reservation::Spans() {
  is_known_ = true;
  const msit_span* spans = nullptr;
  const size_t count = msit_spans(handle_, &spans);
  return ListOf({spans, count});
}

int Reservation::Publish(bool is_filled) {
  msit_reservation* const handle = std::exchange(handle_, nullptr);
  return WithoutGil([&] { return msit_publish(handle, is_filled ? 1 : 0); });
}

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
    set(MSIT_DTYPE_FLOAT64, PyFloat_AsDouble(object));
  } else if (PyComplex_Check(object)) {
    set(MSIT_DTYPE_COMPLEX128,
        std::complex<double>(PyComplex_RealAsDouble(object),
                             PyComplex_ImagAsDouble(object)));
  } else {
    throw nb::type_error("a number is a bool, int, float or complex");
  }
  return scalar;
}

Client::Client(const std::optional<std::string>& endpoint,
               const std::string& run, int32_t rank, int32_t world_size,
               int64_t max_block_us, std::optional<uint64_t> buffer_bytes,
               int64_t linger_us, int64_t open_timeout_us,
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
  options.buffer_bytes = buffer_bytes.value_or(MSIT_BUFFER_AUTO);
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
    open_code_ = WithoutGil([&] { return msit_open(&options, &client_); });
  } catch (...) {
    Free();
    throw;
  }
}

int Client::RecordPointer(uintptr_t data, int32_t dtype, nb::handle dims,
                          nb::handle strides, int64_t stride_unit,
                          const Place& place, const Facts& facts) {
  const Shape shape = ReadShape(dims, strides, stride_unit);
  msit_tensor tensor = PlacedAt(place);
  SetShape(shape, &tensor);
  tensor.dtype = dtype;
  tensor.data = reinterpret_cast<const void*>(data);
  return Record(tensor, facts);
}

int Client::RecordBuffer(nb::handle object, int32_t dtype, const Place& place,
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
  msit_tensor tensor = PlacedAt(place);
  SetShape(shape, &tensor);
  tensor.dtype = dtype;
  tensor.data = view.buf;
  return Record(tensor, facts);
}

int Client::RecordDlpack(const nb::ndarray<nb::ro>& array, const Place& place,
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
  msit_tensor tensor = PlacedAt(place);
  SetShape(shape, &tensor);
  tensor.dtype = dtype;
  tensor.data = array.data();
  return Record(tensor, facts);
}

std::optional<int> Client::RecordTorch(const TorchReader& reader,
                                       nb::handle tensor, const Place& place,
                                       const Facts& facts) {
  TorchReader::Tensor seen;
  if (!reader.Read(tensor.ptr(), &seen)) return std::nullopt;
  msit_tensor record = PlacedAt(place);
  seen.Describe(&record);
  const auto& [requires_grad, stack, identity] = facts;
  const bool is_known = requires_grad != MSIT_REQUIRES_GRAD_UNKNOWN;
  return Record(
      record, {is_known ? requires_grad : seen.requires_grad, stack, identity});
}

std::tuple<int, std::optional<Reservation>> Client::Reserve(
    int32_t dtype, nb::handle dims, const Place& place, const Facts& facts) {
  const auto& [requires_grad, stack, identity] = facts;
  const Shape shape = ReadShape(dims, dims, 0);
  msit_tensor tensor = PlacedAt(place);
  SetShape(shape, &tensor);
  tensor.dtype = dtype;
  tensor.requires_grad = requires_grad;
  tensor.stack = stack ? WithoutNul("stack", *stack) : nullptr;
  tensor.identity = identity;
  msit_reservation* handle = nullptr;
  int code = MSIT_OK;
  try {
    code = WithoutGil([&] { return msit_reserve(client_, &tensor, &handle); });
  } catch (...) {
    // A signal handler has raised an exception, perhaps after the call
    // succeeded.
    if (handle != nullptr) msit_publish(handle, 0);
    throw;
  }
  if (handle == nullptr) return {code, std::nullopt};
  return {code, Reservation(handle)};
}

nb::list Client::Memory() const {
  std::array<msit_span, 2> spans{};
  const size_t count = msit_memory(client_, spans.data(), spans.size());
  return ListOf({spans.data(), std::min(count, spans.size())});
}

int Client::RecordValue(int32_t kind, nb::handle number,
                        const std::string& text, const Place& place,
                        const std::optional<std::string>& stack) {
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
  return WithoutGil([&] { return msit_record(client_, &value); });
}

int Client::RecordStatistics(int32_t dtype, nb::handle dims,
                             const std::string& text, const Place& place,
                             const Facts& facts) {
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
  return WithoutGil([&] { return msit_record(client_, &statistics); });
}

int Client::RecordDocument(const std::string& text, const Place& place) {
  const auto bytes = static_cast<int64_t>(text.size());
  msit_tensor document = PlacedAt(place);
  document.dim_count = 1;
  document.dims = &bytes;
  document.data = text.data();
  document.kind = MSIT_KIND_DOCUMENT;
  return WithoutGil([&] { return msit_record(client_, &document); });
}

int32_t Client::LevelOf(const std::optional<std::string>& device, int64_t token,
                        const std::string& op, int32_t io) const {
  return msit_level_of(client_,
                       device ? WithoutNul("device", *device) : nullptr, token,
                       WithoutNul("op", op), io);
}

bool Client::Selects(int64_t token, const std::string& op, int32_t io) const {
  return msit_selects(client_, token, WithoutNul("op", op), io) != 0;
}

std::tuple<int, int32_t> Client::BeginCall(int64_t token,
                                           const std::string& op) {
  int32_t call = 0;
  const int code = msit_begin_call(client_, token, WithoutNul("op", op), &call);
  return {code, call};
}

int Client::Flush(int64_t timeout_us) {
  return WithoutGil([&] { return msit_flush(client_, timeout_us); });
}

int Client::Close(int64_t timeout_us) {
  return WithoutGil([&] { return msit_close(client_, timeout_us); });
}

nb::tuple Client::Counters() const {
  msit_counters counters{};
  counters.struct_size = sizeof(counters);
  {
    const GilReleased released;
    msit_get_counters(client_, &counters);
  }
  return nb::make_tuple(
      counters.recorded_count, counters.recorded_bytes,
      counters.acknowledged_count, counters.acknowledged_bytes,
      counters.dropped_count, counters.invalid_count,
      counters.refused_chunk_count, counters.reconnect_count,
      counters.filtered_count, counters.truncated_count,
      counters.degraded_count, counters.conflict_count, counters.aliased_count,
      counters.aliased_bytes, counters.recording_ns, counters.open_ns);
}

std::string Client::Run() const {
  std::array<char, 256> text{};
  msit_run_name(client_, text.data(), text.size());
  return text.data();
}

std::string Client::StreamError() const {
  std::array<char, 1024> text{};
  msit_stream_error(client_, text.data(), text.size());
  return text.data();
}

int Client::Record(msit_tensor tensor, const Facts& facts) {
  const auto& [requires_grad, stack, identity] = facts;
  tensor.requires_grad = requires_grad;
  tensor.stack = stack ? WithoutNul("stack", *stack) : nullptr;
  tensor.identity = identity;
  return WithoutGil([&] { return msit_record(client_, &tensor); });
}

void Client::Free() {
  // No caller could receive an exception here.
  main_thread_ = 0;
  const GilReleased released;
  msit_free(client_);
}

}  // namespace msitd::python
