// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace msitd::fleet {

// How peers are reached.
struct PeerOptions {
  // Files in PEM, read whenever a peer is connected to. With a CA, every TCP
  // connection uses TLS; certificate and key come together and need it.
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  // How long a peer may say nothing, and how long a call is tried again while
  // the peer cannot be reached.
  std::chrono::milliseconds timeout{10'000};
};

}  // namespace msitd::fleet
