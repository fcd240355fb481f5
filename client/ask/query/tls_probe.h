// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace msitd::ask {

// What a connection was tried with: PEM texts, which have been checked, and the
// names of their files. Empty if there are none.
struct TlsAttempt {
  std::string endpoint;  // HOST:PORT or [V6]:PORT.
  bool tls = false;
  std::string ca_file;
  std::string ca_pem;
  std::string cert_file;
  std::string cert_pem;
  std::string key_pem;
};

// Finds out why gRPC could not make a connection, which gRPC does not tell.
// Tries the handshake once more, until one side rejects the other. Returns what
// to tell the user; empty if TLS is not the reason. Sends nothing but
// greetings. Blocks until `deadline` at most, plus the time to look up the name
// of the host.
std::string WhyTlsFails(const TlsAttempt& attempt,
                        std::chrono::steady_clock::time_point deadline);

}  // namespace msitd::ask
