// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msit/msit.h>
#include <msit/reserve.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "client/python/torch_reader.h"

namespace msitd::python {

// Location of a record: device, token, op, call, io, index, placement.
using Place =
    std::tuple<std::optional<std::string>, int64_t, std::string, int32_t,
               int32_t, std::string, std::optional<std::string>>;

// Known facts about a tensor: requires_grad, stack, identity.
using Facts = std::tuple<int32_t, std::optional<std::string>, uint64_t>;

// A reservation of libmsit that is published once. If that never happens, the
// destructor releases it, unless its spans were handed out: a device may then
// still write to the memory, so it leaks.
class Reservation {
 public:
  explicit Reservation(msit_reservation* handle) : handle_(handle) {}
  Reservation(Reservation&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)),
        is_known_(other.is_known_) {}
  ~Reservation();

  // Returns the address and length of each span.
  nanobind::list Spans();

  // Returns an msit_code.
  int Publish(bool is_filled);

 private:
  msit_reservation* handle_;
  bool is_known_ = false;
};

// A client of libmsit for Python. Calls return an msit_code, which the package
// turns into values and exceptions. The GIL is released while the library
// copies or waits. An exception of a signal handler ends a call that waits.
class Client {
 public:
  Client(const std::optional<std::string>& endpoint, const std::string& run,
         int32_t rank, int32_t world_size, int64_t max_block_us,
         std::optional<uint64_t> buffer_bytes, int64_t linger_us,
         int64_t open_timeout_us, const std::string& device,
         const std::string& user_agent, int32_t overflow, int32_t if_exists,
         const std::optional<std::string>& job, uint64_t main_thread);

  // May wait for the threads of the client.
  ~Client() { Free(); }

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  int open_code() const { return open_code_; }

  // Returns the underlying client, for calls that no method wraps.
  msit_client* get() const { return client_; }

  // `stride_unit` is the length in bytes of one unit of `strides`.
  int RecordPointer(uintptr_t data, int32_t dtype, nanobind::handle dims,
                    nanobind::handle strides, int64_t stride_unit,
                    const Place& place, const Facts& facts);

  // `dtype` is the type of the elements; the format of the buffer is ignored.
  int RecordBuffer(nanobind::handle object, int32_t dtype, const Place& place,
                   const Facts& facts);

  int RecordDlpack(const nanobind::ndarray<nanobind::ro>& array,
                   const Place& place, const Facts& facts);

  // Records an ordinary torch tensor. Returns nullopt for other tensors.
  std::optional<int> RecordTorch(const TorchReader& reader,
                                 nanobind::handle tensor, const Place& place,
                                 const Facts& facts);

  // Reserves memory for the bytes of a tensor. Returns no reservation if there
  // are no bytes to copy.
  std::tuple<int, std::optional<Reservation>> Reserve(int32_t dtype,
                                                      nanobind::handle dims,
                                                      const Place& place,
                                                      const Facts& facts);

  // Returns the address and length of each piece of memory that can be pinned.
  nanobind::list Memory() const;

  // `number` is a bool, int, float or complex if `kind` is MSIT_KIND_NUMBER.
  int RecordValue(int32_t kind, nanobind::handle number,
                  const std::string& text, const Place& place,
                  const std::optional<std::string>& stack);

  int RecordStatistics(int32_t dtype, nanobind::handle dims,
                       const std::string& text, const Place& place,
                       const Facts& facts);

  int RecordDocument(const std::string& text, const Place& place);

  int32_t LevelOf(const std::optional<std::string>& device, int64_t token,
                  const std::string& op, int32_t io) const;
  bool Selects(int64_t token, const std::string& op, int32_t io) const;

  uint64_t Selection(int64_t token) const {
    return msit_selection(client_, token);
  }

  // Return references to the current token and to the next one, which becomes
  // current: see msit_token_reference. Code of the package never needs token
  // numbers, which may change.
  int64_t TokenReference() const { return msit_token_reference(client_); }
  int64_t NextToken() {
    msit_next_token(client_);
    return msit_token_reference(client_);
  }
  int64_t TokenNumber(int64_t token) const {
    return msit_token_number(client_, token);
  }
  int SetToken(int64_t token) { return msit_set_token(client_, token); }

  std::tuple<int, int32_t> BeginCall(int64_t token, const std::string& op);

  int Flush(int64_t timeout_us);
  int Close(int64_t timeout_us);

  // Returns the counters in the order of the fields of msit_counters.
  nanobind::tuple Counters() const;

  std::string Run() const;
  std::string StreamError() const;

 private:
  // Records a tensor that already has a location and elements, with `facts`.
  int Record(msit_tensor tensor, const Facts& facts);
  void Free();

  // Identity of the main thread; 0 disables checks for signals.
  uint64_t main_thread_;
  msit_client* client_ = nullptr;
  int open_code_ = MSIT_OK;
};

// Counts the time of a block of Python code as spent recording; see msit_enter.
// Blocks may nest. `with` and explicit calls of both methods are equivalent.
class Recording {
 public:
  explicit Recording(nanobind::object client)
      : client_(std::move(client)),
        native_(nanobind::cast<Client&>(client_).get()) {}

  void Enter() { msit_enter(native_); }
  void Leave() { msit_leave(native_); }

 private:
  // Keeps the client alive.
  nanobind::object client_;
  msit_client* native_;
};

// Counts the time of its own lifetime as spent recording, in native code.
class RecordingScope {
 public:
  explicit RecordingScope(msit_client* client) : client_(client) {
    msit_enter(client_);
  }
  ~RecordingScope() { msit_leave(client_); }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  msit_client* client_;
};

// A Python number in the form that libmsit takes.
struct Scalar {
  int32_t dtype = MSIT_DTYPE_UNSPECIFIED;
  alignas(16) std::array<std::byte, 16> bytes{};
};

// Throws nanobind::type_error if `number` is not a bool, int, float or complex,
// and std::bad_cast if it is an int of more than 64 bits.
Scalar ReadScalar(nanobind::handle number);

}  // namespace msitd::python
