// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/handover.h"

#include <utility>

namespace msitd::server {

ConnectionHandler AddHandler(
    grpc::ServerBuilder& builder,
    std::shared_ptr<grpc::ServerCredentials> credentials) {
  return builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
}

void HandTo(grpc::experimental::ExternalConnectionAcceptor& handler,
            int listener, UniqueFd socket) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
      parameters;
  parameters.listener_fd = listener;
  parameters.fd = socket.release();
  handler.HandleNewConnection(&parameters);
}

}  // namespace msitd::server
