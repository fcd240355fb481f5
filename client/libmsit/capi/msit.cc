// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/include/msit/msit.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/libmsit/capi/transport_library.h"
#include "client/libmsit/core/client.h"
#include "client/libmsit/include/msit/reserve.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"

struct msit_client {
  // Shared with the open reservations.
  std::shared_ptr<msitd::libmsit::Client> client;
};

struct msit_reservation {
  std::shared_ptr<msitd::libmsit::Client> client;
  std::unique_ptr<msitd::libmsit::Reservation> places;
  std::array<msit_span, msitd::libmsit::Scratch::kBytes / msitd::kPartBytes>
      spans;
};

namespace {

using msitd::DType;
using msitd::libmsit::Client;
using msitd::libmsit::ClientOptions;
using msitd::libmsit::InvalidArgument;
using msitd::libmsit::Reservation;
using msitd::libmsit::Status;
using msitd::libmsit::TensorView;

// Large enough for all messages of this library. Longer messages of the daemon
// are truncated.
constexpr size_t kErrorBytesMax = 512;
thread_local char t_last_error[kErrorBytesMax] = "";

msit_code Fail(msit_code code, std::string_view message) {
  const size_t size = std::min(message.size(), kErrorBytesMax - 1);
  std::memcpy(t_last_error, message.data(), size);
  t_last_error[size] = '\0';
  return code;
}

// Runs `body`, which returns a Status. Exceptions of the standard library are
// caught here, so that they do not reach the host.
template <typename Body>
msit_code Guarded(Body body) {
  try {
    const Status status = body();
    return status.ok() ? MSIT_OK : Fail(status.code, status.message);
  } catch (const std::exception& error) {
    return Fail(MSIT_ERROR_NO_MEMORY, error.what());
  }
}

std::string_view View(const char* text) {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

// Copies a struct of the caller, whose version may have fewer or more fields
// than this one. Fields that the caller lacks keep their values in `to`.
template <typename T>
void CopySized(const T& from, size_t from_bytes, T* to) {
  std::memcpy(static_cast<void*>(to), &from, std::min(from_bytes, sizeof(T)));
}

bool HasSize(size_t struct_size) { return struct_size >= sizeof(size_t); }

msit_options DefaultOptions() {
  const ClientOptions defaults;
  msit_options options{};
  options.struct_size = sizeof(options);
  options.world_size = defaults.world_size;
  options.max_block_us = defaults.max_block.count();
  options.overflow = static_cast<int32_t>(defaults.overflow);
  options.buffer_bytes = defaults.buffer_bytes;
  options.linger_us = defaults.linger.count();
  options.open_timeout_us = defaults.open_timeout.count();
  options.if_exists = static_cast<int32_t>(defaults.if_exists);
  return options;
}

Status OpenClient(const msit_options* given, msit_client** handle) {
  if (given == nullptr || !HasSize(given->struct_size)) {
    return InvalidArgument("options are null or have no struct_size");
  }
  msit_options options = DefaultOptions();
  CopySized(*given, given->struct_size, &options);
  if (options.overflow < 0 ||
      options.overflow >= msitd::libmsit::kOverflowModeCount) {
    return InvalidArgument("overflow " + std::to_string(options.overflow) +
                           " is unknown");
  }
  if (!msitd::IsIfExists(static_cast<uint32_t>(options.if_exists))) {
    return InvalidArgument("if_exists " + std::to_string(options.if_exists) +
                           " is unknown");
  }
  ClientOptions wanted;
  wanted.if_exists = static_cast<msitd::IfExists>(options.if_exists);
  wanted.job = View(options.job);
  wanted.run = View(options.run);
  wanted.rank = options.rank;
  wanted.world_size = options.world_size;
  wanted.overflow = static_cast<msitd::libmsit::OverflowMode>(options.overflow);
  wanted.max_block = std::chrono::microseconds(options.max_block_us);
  wanted.buffer_bytes = options.buffer_bytes;
  wanted.linger = std::chrono::microseconds(options.linger_us);
  wanted.open_timeout = std::chrono::microseconds(options.open_timeout_us);
  if (options.device != nullptr) wanted.device = options.device;
  wanted.user_agent = View(options.user_agent);
  wanted.interrupt = {options.is_interrupted, options.interrupt_context};

  std::unique_ptr<msitd::libmsit::Transport, msitd::libmsit::TransportDestroyer>
      transport;
  Status status =
      msitd::libmsit::FindDaemon(View(options.endpoint), wanted.open_timeout,
                                 wanted.interrupt, &wanted.endpoint);
  if (!status.ok()) return status;
  status = msitd::libmsit::MakeTransport(wanted.endpoint, &transport);
  if (!status.ok()) return status;
  auto made = std::make_unique<msit_client>();
  std::unique_ptr<Client> opened;
  status = Client::Open(std::move(wanted), std::move(transport), &opened);
  if (!status.ok()) return status;
  made->client = std::move(opened);
  *handle = made.release();
  return {};
}

// `tensor` has all fields. If `reservation` is given, the bytes are supplied
// later.
Status RecordWhole(Client& client, const msit_tensor& tensor,
                   std::unique_ptr<Reservation>* reservation) {
  if (tensor.dim_count < 0 ||
      (tensor.dim_count > 0 && tensor.dims == nullptr)) {
    return InvalidArgument("dim_count is negative, or dims is null");
  }
  if (tensor.requires_grad < MSIT_REQUIRES_GRAD_UNKNOWN ||
      tensor.requires_grad > MSIT_REQUIRES_GRAD_YES) {
    return InvalidArgument("requires_grad " +
                           std::to_string(tensor.requires_grad) +
                           " is unknown");
  }
  // A number that does not fit becomes `other`, which is not a value of the
  // enum.
  const auto narrow = [](int32_t number, uint8_t other = 0) {
    return number < 0 || number > std::numeric_limits<uint8_t>::max()
               ? other
               : static_cast<uint8_t>(number);
  };
  constexpr uint8_t kNoKind = std::numeric_limits<uint8_t>::max();
  const std::optional<bool> requires_grad =
      tensor.requires_grad == MSIT_REQUIRES_GRAD_UNKNOWN
          ? std::optional<bool>()
          : tensor.requires_grad == MSIT_REQUIRES_GRAD_YES;
  const auto dim_count = static_cast<size_t>(tensor.dim_count);
  const bool comes_later = reservation != nullptr;
  const bool has_strides = tensor.byte_strides != nullptr && !comes_later;
  // Initialized in one step, because clearing the view first would double the
  // cost of a call that is filtered.
  const TensorView view = {
      .device = View(tensor.device),
      .token = tensor.token,
      .op = View(tensor.op),
      .call = tensor.call,
      .io = static_cast<msitd::Io>(narrow(tensor.io)),
      .index = View(tensor.index),
      .dtype = static_cast<DType>(narrow(tensor.dtype)),
      .dims = {tensor.dims, dim_count},
      .byte_strides = {tensor.byte_strides, has_strides ? dim_count : 0},
      .data =
          comes_later ? nullptr : static_cast<const std::byte*>(tensor.data),
      .comes_later = comes_later,
      .placement = View(tensor.placement),
      .kind = static_cast<msitd::RecordKind>(narrow(tensor.kind, kNoKind)),
      .requires_grad = requires_grad,
      .value = View(tensor.value),
      .stack = View(tensor.stack),
      .identity = tensor.identity,
  };
  return comes_later ? client.Reserve(view, reservation) : client.Record(view);
}

Status RecordTensor(Client& client, const msit_tensor* given,
                    std::unique_ptr<Reservation>* reservation = nullptr) {
  if (given == nullptr || !HasSize(given->struct_size)) {
    return InvalidArgument("tensor is null or has no struct_size");
  }
  if (given->struct_size >= sizeof(msit_tensor)) {
    return RecordWhole(client, *given, reservation);
  }
  msit_tensor tensor{};
  CopySized(*given, given->struct_size, &tensor);
  return RecordWhole(client, tensor, reservation);
}

// Copies `from`, truncated to `text_bytes` including a NUL. Returns the length
// of `from`.
size_t CopyText(const std::string& from, char* text, size_t text_bytes) {
  if (text != nullptr && text_bytes > 0) {
    const size_t cut = std::min(from.size(), text_bytes - 1);
    std::memcpy(text, from.data(), cut);
    text[cut] = '\0';
  }
  return from.size();
}

msit_code NullClient() {
  return Fail(MSIT_ERROR_INVALID_ARGUMENT, "client is null");
}

}  // namespace

void msit_options_init(msit_options* options) noexcept {
  if (options == nullptr || !HasSize(options->struct_size)) return;
  const size_t struct_size = options->struct_size;
  msit_options defaults = DefaultOptions();
  defaults.struct_size = struct_size;
  std::memcpy(options, &defaults, std::min(struct_size, sizeof(defaults)));
}

msit_code msit_open(const msit_options* options,
                    msit_client** client) noexcept {
  if (client == nullptr) return NullClient();
  *client = nullptr;
  return Guarded([&] { return OpenClient(options, client); });
}

msit_code msit_record(msit_client* client, const msit_tensor* tensor) noexcept {
  if (client == nullptr) return NullClient();
  return Guarded([&] {
    try {
      return RecordTensor(*client->client, tensor);
    } catch (const std::exception&) {
      client->client->CountDrop();
      throw;
    }
  });
}

msit_code msit_reserve(msit_client* client, const msit_tensor* tensor,
                       msit_reservation** reservation) noexcept {
  if (client == nullptr) return NullClient();
  if (reservation == nullptr) {
    return Fail(MSIT_ERROR_INVALID_ARGUMENT, "reservation is null");
  }
  *reservation = nullptr;
  return Guarded([&] {
    try {
      // Allocated first, because nothing may fail after the places are
      // reserved.
      auto made = std::make_unique<msit_reservation>();
      made->client = client->client;
      const Status status =
          RecordTensor(*client->client, tensor, &made->places);
      if (!made->places) return status;
      size_t at = 0;
      for (const Reservation::ReservedPart& part : made->places->parts) {
        made->spans[at++] = {part.bytes.data(), part.bytes.size()};
      }
      *reservation = made.release();
      return status;
    } catch (const std::exception&) {
      client->client->CountDrop();
      throw;
    }
  });
}

size_t msit_spans(const msit_reservation* reservation,
                  const msit_span** spans) noexcept {
  if (reservation == nullptr || spans == nullptr) return 0;
  *spans = reservation->spans.data();
  return reservation->places->parts.size();
}

msit_code msit_publish(msit_reservation* reservation,
                       int32_t is_filled) noexcept {
  if (reservation == nullptr) {
    return Fail(MSIT_ERROR_INVALID_ARGUMENT, "reservation is null");
  }
  const msit_code code = Guarded([&] {
    return reservation->client->Publish(*reservation->places, is_filled != 0);
  });
  // The client must not be destroyed in a forked child.
  if (reservation->client->in_forked_child()) return code;
  Guarded([&] {
    delete reservation;
    return Status();
  });
  return code;
}

size_t msit_memory(const msit_client* client, msit_span* spans,
                   size_t span_count) noexcept {
  size_t count = 0;
  if (client == nullptr) return count;
  Guarded([&] {
    for (const std::span<std::byte> piece : client->client->Memory()) {
      if (spans != nullptr && count < span_count) {
        spans[count] = {piece.data(), piece.size()};
      }
      ++count;
    }
    return Status();
  });
  return count;
}

int32_t msit_selects(const msit_client* client, int64_t token, const char* op,
                     int32_t io) noexcept {
  int32_t selects = 1;
  if (client == nullptr || op == nullptr) return selects;
  Guarded([&] {
    const bool is_io = io >= 0 && io < msitd::kIoCount;
    selects =
        !is_io || client->client->Selects(token, op, static_cast<msitd::Io>(io))
            ? 1
            : 0;
    return Status();
  });
  return selects;
}

int32_t msit_level_of(const msit_client* client, const char* device,
                      int64_t token, const char* op, int32_t io) noexcept {
  int32_t level = MSIT_LEVEL_FULL;
  if (client == nullptr || op == nullptr || io <= 0 || io >= msitd::kIoCount) {
    return level;
  }
  Guarded([&] {
    level = static_cast<int32_t>(
        client->client->LevelAt(device == nullptr ? "" : device, token, op,
                                static_cast<msitd::Io>(io)));
    return Status();
  });
  return level;
}

uint64_t msit_selection(const msit_client* client, int64_t token) noexcept {
  uint64_t selection = 0;
  if (client == nullptr) return selection;
  Guarded([&] {
    selection = client->client->SelectionAt(token);
    return Status();
  });
  return selection;
}

int64_t msit_token(const msit_client* client) noexcept {
  return client == nullptr ? 0 : client->client->token();
}

int64_t msit_token_reference(const msit_client* client) noexcept {
  return client == nullptr ? 0 : client->client->TokenReference();
}

int64_t msit_token_number(const msit_client* client, int64_t token) noexcept {
  return client == nullptr ? 0 : client->client->TokenNumber(token);
}

int64_t msit_next_token(msit_client* client) noexcept {
  return client == nullptr ? 0 : client->client->NextToken();
}

msit_code msit_set_token(msit_client* client, int64_t token) noexcept {
  if (client == nullptr) return NullClient();
  return Guarded([&] { return client->client->SetToken(token); });
}

msit_code msit_begin_call(msit_client* client, int64_t token, const char* op,
                          int32_t* call) noexcept {
  if (client == nullptr) return NullClient();
  if (call == nullptr) {
    return Fail(MSIT_ERROR_INVALID_ARGUMENT, "call is null");
  }
  return Guarded(
      [&] { return client->client->BeginCall(token, View(op), call); });
}

void msit_enter(msit_client* client) noexcept {
  if (client != nullptr) client->client->Enter();
}

void msit_leave(msit_client* client) noexcept {
  if (client != nullptr) client->client->Leave();
}

msit_code msit_flush(msit_client* client, int64_t timeout_us) noexcept {
  if (client == nullptr) return NullClient();
  return Guarded([&] {
    return client->client->Flush(std::chrono::microseconds(timeout_us));
  });
}

msit_code msit_get_counters(const msit_client* client,
                            msit_counters* counters) noexcept {
  if (client == nullptr) return NullClient();
  if (counters == nullptr || !HasSize(counters->struct_size)) {
    return Fail(MSIT_ERROR_INVALID_ARGUMENT,
                "counters are null or have no struct_size");
  }
  return Guarded([&] {
    const msitd::libmsit::ClientCounters now = client->client->counters();
    msit_counters out{};
    out.struct_size = counters->struct_size;
    out.recorded_count = now.recorded_count;
    out.recorded_bytes = now.recorded_bytes;
    out.acknowledged_count = now.acknowledged_count;
    out.acknowledged_bytes = now.acknowledged_bytes;
    out.dropped_count = now.dropped_count;
    out.invalid_count = now.invalid_count;
    out.refused_chunk_count = now.refused_chunk_count;
    out.reconnect_count = now.reconnect_count;
    out.filtered_count = now.filtered_count;
    out.truncated_count = now.truncated_count;
    out.degraded_count = now.degraded_count;
    out.conflict_count = now.conflict_count;
    out.aliased_count = now.aliased_count;
    out.aliased_bytes = now.aliased_bytes;
    out.recording_ns = now.recording_ns;
    out.open_ns = now.open_ns;
    CopySized(out, counters->struct_size, counters);
    return Status();
  });
}

size_t msit_stream_error(const msit_client* client, char* text,
                         size_t text_bytes) noexcept {
  size_t size = 0;
  Guarded([&] {
    size = CopyText(
        client == nullptr ? "client is null" : client->client->stream_error(),
        text, text_bytes);
    return Status();
  });
  return size;
}

size_t msit_run_name(const msit_client* client, char* text,
                     size_t text_bytes) noexcept {
  size_t size = 0;
  Guarded([&] {
    size = CopyText(client == nullptr ? "" : client->client->run(), text,
                    text_bytes);
    return Status();
  });
  return size;
}

msit_code msit_close(msit_client* client, int64_t timeout_us) noexcept {
  if (client == nullptr) return NullClient();
  return Guarded([&] {
    return client->client->Close(std::chrono::microseconds(timeout_us));
  });
}

void msit_free(msit_client* client) noexcept {
  if (client == nullptr) return;
  // In a forked child the client's threads do not exist and its locks may be
  // held, so its memory is leaked.
  if (client->client->in_forked_child()) return;
  Guarded([&] {
    // Open reservations may keep the client alive longer.
    static_cast<void>(client->client->Close(std::chrono::microseconds(0)));
    delete client;
    return Status();
  });
}

const char* msit_last_error(void) noexcept { return t_last_error; }

const char* msit_version(void) noexcept { return MSITD_VERSION; }

size_t msit_dtype_bytes(int32_t dtype) noexcept {
  return dtype < 0 || dtype >= msitd::kDTypeCount
             ? 0
             : msitd::ElementBytes(static_cast<DType>(dtype));
}

const char* msit_dtype_name(int32_t dtype) noexcept {
  // DTypeName returns string literals, which end with NUL.
  return msit_dtype_bytes(dtype) == 0
             ? nullptr
             : msitd::DTypeName(static_cast<DType>(dtype)).data();
}

int32_t msit_dtype_from_name(const char* name) noexcept {
  const auto dtype = msitd::ParseDType(View(name));
  return dtype ? static_cast<int32_t>(*dtype) : MSIT_DTYPE_UNSPECIFIED;
}
