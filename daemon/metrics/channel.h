// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "daemon/metrics/tls_context.h"
#include "protos/os/unique_fd.h"

namespace msitd::metrics {

// One accepted connection, plain or with TLS. No call blocks.
//
// With TLS, reading can require that the socket becomes writable, and writing
// that it becomes readable. After kBlocked, the caller therefore waits for
// `events()` instead of the event that fits its own call, and then repeats the
// call.
//
// Thread-compatible.
class Channel {
 public:
  enum class Result {
    kDone,     // At least one byte was transferred.
    kBlocked,  // Wait for events().
    kClosed,   // The peer has ended the connection, or it failed.
  };

  // `socket` must be non-blocking. Without `tls`, bytes are plain. An object
  // without a connection, for lack of memory, is closed.
  Channel(UniqueFd socket, const TlsContext* tls);

  int fd() const { return socket_.get(); }
  // Events of poll() for which the last blocked call waits.
  short events() const { return events_; }

  // Reads up to `bytes.size()` bytes; the number is stored in `count`.
  Result Read(std::span<char> bytes, size_t& count);
  // Writes some bytes of `bytes`, which must not be empty; the number is stored
  // in `count`.
  Result Write(std::string_view bytes, size_t& count);

  // Announces that nothing more will be written. Returns false if the
  // connection has failed. Afterwards only Discard may be called.
  bool EndWriting();
  // Like Read, for bytes that arrive after EndWriting and are not decrypted.
  Result Discard(std::span<char> bytes, size_t& count);

 private:
  struct FreeSsl {
    void operator()(ssl_st* ssl) const;
  };

  // Converts the result of a function of OpenSSL that transferred nothing.
  Result Blocked(int result);

  UniqueFd socket_;
  std::unique_ptr<ssl_st, FreeSsl> ssl_;  // Null for a plain connection.
  bool is_closed_ = false;
  short events_;
};

}  // namespace msitd::metrics
