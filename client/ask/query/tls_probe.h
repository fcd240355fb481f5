// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace msitd::ask {

// The TLS settings of a connection attempt: PEM texts, which have been checked,
// and the names of their files. Empty if there are none.
struct TlsAttempt {
  std::string endpoint;  // HOST:PORT or [V6]:PORT.
  bool tls = false;
  std::string ca_file;
  std::string ca_pem;
  std::string cert_file;
  std::string cert_pem;
  std::string key_pem;
};

// Determines why a connection failed, which gRPC does not report. Repeats the
// handshake until one side rejects the other. Returns a message for the user;
// empty if TLS is not the reason. Sends only greetings. Blocks until
// `deadline`, plus the time to resolve the name of the host.
std::string WhyTlsFails(const TlsAttempt& attempt,
                        std::chrono::steady_clock::time_point deadline);

}  // namespace msitd::ask
