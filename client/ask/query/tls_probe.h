// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace msitd::ask {

struct ConnectionOptions;

// Determines why a TCP connection to a daemon failed, which gRPC does not
// report: repeats the TLS handshake until one side rejects the other. Returns a
// message for the user; empty if TLS is not the reason. The files in `options`
// must have been checked. Sends no request. Blocks until `deadline`, plus the
// time to resolve the name of the host.
std::string WhyTlsFails(const ConnectionOptions& options,
                        std::chrono::steady_clock::time_point deadline);

}  // namespace msitd::ask
