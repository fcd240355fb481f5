// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <complex>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "msit.h"
#include "reserve.h"

// The C interface with owning types and spans. It is header-only, throws no
// exceptions of its own, and adds nothing to the functions of msit.h. The
// contracts are those of msit.h.
namespace msit {

// The result of a call.
class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(msit_code code) : code_(code) {}
  // A failure that the C interface does not detect. `message` is a literal.
  Status(msit_code code, const char* message)
      : code_(code), message_(message) {}

  bool ok() const { return code_ == MSIT_OK; }
  msit_code code() const { return code_; }

  // Returns why the call failed; valid until the next call in this thread.
  const char* message() const {
    if (ok()) return "";
    return message_ != nullptr ? message_ : msit_last_error();
  }

 private:
  msit_code code_ = MSIT_OK;
  const char* message_ = nullptr;
};

// The msit_dtype of a C++ type: bool, an integer, float, double or std::complex
// of these two. Use Client::RecordRaw for all other dtypes.
template <typename T>
constexpr msit_dtype DTypeOf() {
  if constexpr (std::is_same_v<T, bool>) {
    return MSIT_DTYPE_BOOL;
  } else if constexpr (std::is_same_v<T, float>) {
    return MSIT_DTYPE_FLOAT32;
  } else if constexpr (std::is_same_v<T, double>) {
    return MSIT_DTYPE_FLOAT64;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return MSIT_DTYPE_COMPLEX64;
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return MSIT_DTYPE_COMPLEX128;
  } else {
    static_assert(std::is_integral_v<T> && sizeof(T) <= 8);
    constexpr int kLog2 = sizeof(T) == 1   ? 0
                          : sizeof(T) == 2 ? 1
                          : sizeof(T) == 4 ? 2
                                           : 3;
    return static_cast<msit_dtype>(
        (std::is_signed_v<T> ? MSIT_DTYPE_INT8 : MSIT_DTYPE_UINT8) + kLog2);
  }
}

// The key of a tensor.
struct Key {
  const char* op = nullptr;
  msit_io io = MSIT_IO_OUTPUT;
  const char* index = "0";
  int64_t token = MSIT_TOKEN_CURRENT;
  int32_t call = MSIT_CALL_AUTO;
  // Null: the device of the client.
  const char* device = nullptr;
  // See msit_tensor. Null: the tensor is not a shard.
  const char* placement = nullptr;
};

// Properties of a tensor in addition to its bytes; see msit_tensor.
struct Facts {
  msit_requires_grad requires_grad = MSIT_REQUIRES_GRAD_UNKNOWN;
  const char* stack = nullptr;
  uint64_t identity = 0;
};

// Returns options with the defaults.
inline msit_options DefaultOptions() {
  msit_options options{};
  options.struct_size = sizeof(options);
  msit_options_init(&options);
  return options;
}

// A record whose bytes are written later; see msit_reserve. Empty if there is
// nothing to write. Destruction gives the record up, unless it was published.
// May outlive the client.
class Reservation {
 public:
  Reservation() = default;

  explicit operator bool() const { return handle_ != nullptr; }

  // The memory for the bytes, as consecutive spans.
  std::span<const msit_span> spans() const {
    const msit_span* spans = nullptr;
    const size_t count = msit_spans(handle_.get(), &spans);
    return {spans, count};
  }

  // Reports that all bytes have been written. The reservation is empty
  // afterwards.
  Status Publish() { return Status(msit_publish(handle_.release(), 1)); }

 private:
  friend class Client;
  struct GiveUp {
    void operator()(msit_reservation* handle) const { msit_publish(handle, 0); }
  };
  std::unique_ptr<msit_reservation, GiveUp> handle_;
};

// One rank of one run. Thread-safe, except for moving and destruction.
// Destruction closes the client with a timeout of 0. An empty client refuses
// every call with INVALID_ARGUMENT.
class Client {
 public:
  using Microseconds = std::chrono::microseconds;

  Client() = default;

  // See msit_open. `*client` is empty on failure.
  static Status Open(const msit_options& options, Client* client) {
    msit_client* handle = nullptr;
    const Status status(msit_open(&options, &handle));
    client->handle_.reset(handle);
    return status;
  }

  // Records a tensor of row-major elements. INVALID_ARGUMENT if `elements` is
  // not as long as the product of `dims`; no counter has that.
  template <typename T>
  Status Record(const Key& key, std::span<const T> elements,
                std::span<const int64_t> dims, const Facts& facts = {}) {
    uint64_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<uint64_t>(dim);
    if (count != elements.size()) {
      return Status(MSIT_ERROR_INVALID_ARGUMENT,
                    "there are not as many elements as dims say");
    }
    return RecordRaw(key, DTypeOf<std::remove_cv_t<T>>(), dims, {},
                     elements.data(), facts);
  }

  // Records a tensor of any dtype. `byte_strides` has as many entries as
  // `dims`, or none for row-major; if not, INVALID_ARGUMENT, which no counter
  // has.
  Status RecordRaw(const Key& key, msit_dtype dtype,
                   std::span<const int64_t> dims,
                   std::span<const int64_t> byte_strides, const void* data,
                   const Facts& facts = {}) {
    if (!byte_strides.empty() && byte_strides.size() != dims.size()) {
      return Status(MSIT_ERROR_INVALID_ARGUMENT,
                    "there are not as many strides as dims");
    }
    const msit_tensor tensor =
        TensorOf(key, dtype, dims, byte_strides.data(), data, facts);
    return Status(msit_record(handle_.get(), &tensor));
  }

  // See msit_reserve. `*reservation` is empty on failure.
  Status Reserve(const Key& key, msit_dtype dtype,
                 std::span<const int64_t> dims, Reservation* reservation,
                 const Facts& facts = {}) {
    const msit_tensor tensor =
        TensorOf(key, dtype, dims, nullptr, nullptr, facts);
    msit_reservation* handle = nullptr;
    const Status status(msit_reserve(handle_.get(), &tensor, &handle));
    reservation->handle_.reset(handle);
    return status;
  }

  // Records a value that is nothing but its text: TEXT, NONE, DTYPE or OTHER.
  Status RecordValue(const Key& key, msit_kind kind, const char* text) {
    return RecordScalar(key, kind, MSIT_DTYPE_UNSPECIFIED, nullptr, text);
  }

  // Records a bool, int64_t, double or std::complex<double> as a value. `text`
  // is how it is written.
  template <typename T>
  Status RecordNumber(const Key& key, T number, const char* text) {
    constexpr msit_dtype kDType = DTypeOf<T>();
    static_assert(kDType == MSIT_DTYPE_BOOL || kDType == MSIT_DTYPE_INT64 ||
                  kDType == MSIT_DTYPE_FLOAT64 ||
                  kDType == MSIT_DTYPE_COMPLEX128);
    return RecordScalar(key, MSIT_KIND_NUMBER, kDType, &number, text);
  }

  // Records statistics of a tensor whose bytes are not kept. `text` is a JSON
  // object; see MSIT_KIND_STATISTICS.
  Status RecordStatistics(const Key& key, msit_dtype dtype,
                          std::span<const int64_t> dims, const char* text,
                          const Facts& facts = {}) {
    msit_tensor statistics{};
    statistics.struct_size = sizeof(statistics);
    statistics.device = key.device;
    statistics.token = key.token;
    statistics.op = key.op;
    statistics.call = key.call;
    statistics.io = key.io;
    statistics.index = key.index;
    statistics.dtype = dtype;
    statistics.dim_count = static_cast<int32_t>(dims.size());
    statistics.dims = dims.data();
    statistics.placement = key.placement;
    statistics.kind = MSIT_KIND_STATISTICS;
    statistics.requires_grad = facts.requires_grad;
    statistics.value = text;
    statistics.stack = facts.stack;
    return Status(msit_record(handle_.get(), &statistics));
  }

  // Records a document that describes this rank.
  Status RecordDocument(const char* name, std::string_view text) {
    const auto bytes = static_cast<int64_t>(text.size());
    msit_tensor document{};
    document.struct_size = sizeof(document);
    document.op = name;
    document.call = MSIT_CALL_AUTO;
    document.dim_count = 1;
    document.dims = &bytes;
    document.data = text.data();
    document.kind = MSIT_KIND_DOCUMENT;
    return Status(msit_record(handle_.get(), &document));
  }

  // See msit_selects.
  bool Selects(const char* op, msit_io io,
               int64_t token = MSIT_TOKEN_CURRENT) const {
    return msit_selects(handle_.get(), token, op, io) != 0;
  }

  // See msit_selection.
  uint64_t Selection(int64_t token = MSIT_TOKEN_CURRENT) const {
    return msit_selection(handle_.get(), token);
  }

  int64_t token() const { return msit_token(handle_.get()); }
  // See msit_token_reference.
  int64_t TokenReference() const { return msit_token_reference(handle_.get()); }
  // See msit_token_number.
  int64_t TokenNumber(int64_t token) const {
    return msit_token_number(handle_.get(), token);
  }
  int64_t NextToken() { return msit_next_token(handle_.get()); }
  Status SetToken(int64_t token) {
    return Status(msit_set_token(handle_.get(), token));
  }
  Status BeginCall(int64_t token, const char* op, int32_t* call) {
    return Status(msit_begin_call(handle_.get(), token, op, call));
  }

  Status Flush(Microseconds timeout) {
    return Status(msit_flush(handle_.get(), timeout.count()));
  }
  Status Close(Microseconds timeout) {
    return Status(msit_close(handle_.get(), timeout.count()));
  }

  // All zero for an empty client.
  // See msit_enter.
  void Enter() { msit_enter(handle_.get()); }
  void Leave() { msit_leave(handle_.get()); }

  msit_counters counters() const {
    msit_counters counters{};
    counters.struct_size = sizeof(counters);
    msit_get_counters(handle_.get(), &counters);
    return counters;
  }

  // See msit_run_name. Empty for an empty client.
  std::string run() const {
    std::string name(msit_run_name(handle_.get(), nullptr, 0), '\0');
    msit_run_name(handle_.get(), name.data(), name.size() + 1);
    return name;
  }

  msit_client* handle() const { return handle_.get(); }

 private:
  static msit_tensor TensorOf(const Key& key, msit_dtype dtype,
                              std::span<const int64_t> dims,
                              const int64_t* byte_strides, const void* data,
                              const Facts& facts) {
    return {
        .struct_size = sizeof(msit_tensor),
        .device = key.device,
        .token = key.token,
        .op = key.op,
        .call = key.call,
        .io = key.io,
        .index = key.index,
        .dtype = dtype,
        .dim_count = static_cast<int32_t>(dims.size()),
        .dims = dims.data(),
        .byte_strides = byte_strides,
        .data = data,
        .placement = key.placement,
        .kind = MSIT_KIND_TENSOR,
        .requires_grad = facts.requires_grad,
        .value = nullptr,
        .stack = facts.stack,
        .identity = facts.identity,
    };
  }

  Status RecordScalar(const Key& key, msit_kind kind, msit_dtype dtype,
                      const void* data, const char* text) {
    msit_tensor value{};
    value.struct_size = sizeof(value);
    value.device = key.device;
    value.token = key.token;
    value.op = key.op;
    value.call = key.call;
    value.io = key.io;
    value.index = key.index;
    value.dtype = dtype;
    value.data = data;
    value.kind = kind;
    value.value = text;
    return Status(msit_record(handle_.get(), &value));
  }

  struct Free {
    void operator()(msit_client* client) const { msit_free(client); }
  };
  std::unique_ptr<msit_client, Free> handle_;
};

}  // namespace msit
