// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics/channel.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace msitd::metrics {
namespace {

Channel::Result ResultOf(ssize_t moved, size_t& count) {
  if (moved > 0) {
    count = static_cast<size_t>(moved);
    return Channel::Result::kDone;
  }
  const bool is_blocked =
      moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return is_blocked ? Channel::Result::kBlocked : Channel::Result::kClosed;
}

// OpenSSL writes with write(), which would raise SIGPIPE. Threads of this
// process block the signals that end it, but not this one.
int SendQuietly(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  int fd = -1;
  BIO_get_fd(bio, &fd);
  const ssize_t sent =
      ::send(fd, bytes, static_cast<size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    BIO_set_retry_write(bio);
  }
  return static_cast<int>(sent);
}

// The socket BIO of OpenSSL, except for its function that writes. Never freed.
const BIO_METHOD* QuietSocket() {
  static const BIO_METHOD* const method = [] {
    const BIO_METHOD* const base = BIO_s_socket();
    BIO_METHOD* const out = BIO_meth_new(
        BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR,
        "socket without SIGPIPE");
    if (out == nullptr) return out;
    BIO_meth_set_write(out, SendQuietly);
    BIO_meth_set_read(out, BIO_meth_get_read(base));
    BIO_meth_set_ctrl(out, BIO_meth_get_ctrl(base));
    BIO_meth_set_create(out, BIO_meth_get_create(base));
    BIO_meth_set_destroy(out, BIO_meth_get_destroy(base));
    return out;
  }();
  return method;
}

}  // namespace

void Channel::FreeSsl::operator()(ssl_st* ssl) const { SSL_free(ssl); }

Channel::Channel(UniqueFd socket, const TlsContext* tls)
    : socket_(std::move(socket)), events_(POLLIN) {
  if (tls == nullptr) return;
  ssl_.reset(tls->NewConnection());
  BIO* const bio = QuietSocket() == nullptr ? nullptr : BIO_new(QuietSocket());
  if (ssl_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    ERR_clear_error();
    is_closed_ = true;
    return;
  }
  BIO_set_fd(bio, socket_.get(), BIO_NOCLOSE);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_accept_state(ssl_.get());
}

Channel::Result Channel::Blocked(int result) {
  const int error = SSL_get_error(ssl_.get(), result);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
    events_ = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    return Result::kBlocked;
  }
  // OpenSSL must not be used after an error of the protocol.
  is_closed_ = true;
  return Result::kClosed;
}

Channel::Result Channel::Read(std::span<char> bytes, size_t& count) {
  if (is_closed_) return Result::kClosed;
  events_ = POLLIN;
  if (ssl_ == nullptr) {
    return ResultOf(::recv(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT),
                    count);
  }
  const int result =
      SSL_read_ex(ssl_.get(), bytes.data(), bytes.size(), &count);
  return result == 1 ? Result::kDone : Blocked(result);
}

Channel::Result Channel::Write(std::string_view bytes, size_t& count) {
  if (is_closed_) return Result::kClosed;
  events_ = POLLOUT;
  if (ssl_ == nullptr) {
    return ResultOf(
        ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT),
        count);
  }
  const int result =
      SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count);
  return result == 1 ? Result::kDone : Blocked(result);
}

bool Channel::EndWriting() {
  events_ = POLLIN;
  if (is_closed_) return false;
  // The notification has a few bytes. If they do not fit, the connection ends
  // without it, and the answer has a length.
  if (ssl_ != nullptr) (void)SSL_shutdown(ssl_.get());
  ERR_clear_error();
  return ::shutdown(fd(), SHUT_WR) == 0;
}

Channel::Result Channel::Discard(std::span<char> bytes, size_t& count) {
  events_ = POLLIN;
  return ResultOf(::recv(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT),
                  count);
}

}  // namespace msitd::metrics
