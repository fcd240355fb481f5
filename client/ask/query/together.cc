// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/together.h"

#include "client/ask/query/connection.h"

namespace msitd::ask {

bool IsOfOneDaemon(const Connection& connection) {
  return connection.fanout() == nullptr;
}

}  // namespace msitd::ask
