// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/libmsit/core/client.h"
#include "client/libmsit/shm/shm_transport.h"

namespace msitd::libmsit {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr uint64_t kSlotBytes = chunk::ChunkBuilder::kBufferBytes;

// A timeout that is longer than any test, for waits that must not expire.
inline constexpr seconds kLong{60};

inline ClientOptions ShmOptions(const std::string& run, int32_t rank = 0,
                                int32_t world_size = 1) {
  ClientOptions options;
  options.run = run;
  options.rank = rank;
  options.world_size = world_size;
  options.max_block = kLong;
  options.open_timeout = kLong;
  options.backoff_min = milliseconds(1);
  options.backoff_max = milliseconds(2);
  options.user_agent = "test";
  return options;
}

inline Status OpenShm(const ClientOptions& options, const std::string& path,
                      std::unique_ptr<Client>* client) {
  return Client::Open(
      options,
      std::unique_ptr<Transport, TransportDestroyer>(new ShmTransport(path)),
      client);
}

// Records `count` bytes of `value` as the output of `op`.
inline Status Record(Client& client, const std::string& op, size_t count,
                     int value = 1) {
  const std::vector<std::byte> data(count, static_cast<std::byte>(value));
  const int64_t dims[] = {static_cast<int64_t>(count)};
  TensorView tensor;
  tensor.op = op;
  tensor.io = Io::kOutput;
  tensor.index = "0";
  tensor.dtype = DType::kUint8;
  tensor.dims = dims;
  tensor.data = data.data();
  return client.Record(tensor);
}

}  // namespace msitd::libmsit
