// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace msitd::peers {

// How to connect to peers.
struct PeerOptions {
  // PEM files, read whenever a connection to a peer is made. If a CA is set,
  // every TCP connection uses TLS. The certificate and the key must be set
  // together and require the CA.
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  // How long a peer may be silent, and how long a call is retried while the
  // peer cannot be reached.
  std::chrono::milliseconds timeout{10'000};
};

}  // namespace msitd::peers
