// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/tensor_bytes.h"

#include <utility>

#include "client/ask/query/connection.h"
#include "client/ask/query/resuming_read.h"

namespace msitd::ask {

Outcome ReadTensorBytes(Connection& connection, const WantedBytes& wanted,
                        ByteSink sink) {
  MSITCTL_RETURN_IF_FAILED(connection.Connect());
  v1::ReadTensorRequest request;
  request.set_name(wanted.name);
  request.set_sample(wanted.is_sample);
  return ResumingRead<v1::ReadTensorResponse>(
             connection, wanted.size_bytes,
             [&](grpc::ClientContext& context, int64_t offset_bytes) {
               request.set_offset_bytes(offset_bytes);
               return connection.stub<v1::TensorService::Stub>().ReadTensor(
                   &context, request);
             },
             std::move(sink))
      .Run();
}

bool IsOfTensor(const Outcome& outcome) {
  return outcome.exit_code == ExitCodeOf(grpc::StatusCode::NOT_FOUND) ||
         outcome.exit_code ==
             ExitCodeOf(grpc::StatusCode::FAILED_PRECONDITION) ||
         outcome.exit_code == ExitCodeOf(grpc::StatusCode::DATA_LOSS);
}

}  // namespace msitd::ask
