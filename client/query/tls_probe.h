// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace msitd::ctl {

// What a connection was tried with. PEM texts and the names of their files,
// empty if there are none; the texts have been checked.
struct TlsAttempt {
  std::string endpoint;  // HOST:PORT or [V6]:PORT.
  bool tls = false;
  std::string ca_file;
  std::string ca_pem;
  std::string cert_file;
  std::string cert_pem;
  std::string key_pem;
};

// Finds out why a connection fails that gRPC, which does not tell, could not
// make: tries it once more, as far as both sides trust each other. Returns what
// to tell the user; empty if TLS is not the reason. Blocks until `deadline` at
// most, but for looking up the name of the host. Sends nothing but greetings.
std::string WhyTlsFails(const TlsAttempt& attempt,
                        std::chrono::steady_clock::time_point deadline);

}  // namespace msitd::ctl
