// SPDX-License-Identifier: Apache-2.0
#include "client/msit/private_comparison.h"

#include <chrono>
#include <utility>

#include "client/core/client.h"
#include "client/grpc/grpc_transport.h"
#include "protos/status/status.h"

namespace msitd::msit {
namespace {

// How long the daemon may take nothing.
constexpr std::chrono::microseconds kPatience = std::chrono::minutes(2);

const char* RunOf(PrivateComparison::Side side) {
  return side == PrivateComparison::Side::kGolden ? kGoldenRun : kMyRun;
}

absl::Status StatusOf(const client::Status& status,
                      const std::string& stream_error) {
  const std::string text =
      status.message.empty() ? stream_error : status.message;
  switch (status.code) {
    case MSIT_OK:
      return absl::OkStatus();
    case MSIT_ERROR_INVALID_ARGUMENT:
      return absl::InvalidArgumentError(text);
    case MSIT_ERROR_INTERRUPTED:
      return absl::CancelledError("interrupted");
    default:
      return absl::UnavailableError("the daemon takes no tensors: " + text);
  }
}

}  // namespace

PrivateComparison::PrivateComparison(ctl::Interrupts& interrupts)
    : interrupts_(interrupts) {}

PrivateComparison::~PrivateComparison() = default;

absl::StatusOr<std::unique_ptr<PrivateComparison>> PrivateComparison::Start(
    ctl::Interrupts& interrupts) {
  std::unique_ptr<PrivateComparison> made(new PrivateComparison(interrupts));
  MSITD_ASSIGN_OR_RETURN(made->runs_, PrivateRuns::Start(interrupts));
  return made;
}

absl::StatusOr<client::Client*> PrivateComparison::Open(Side side) {
  std::unique_ptr<client::Client>& client = clients_[static_cast<size_t>(side)];
  if (client != nullptr) return client.get();
  client::ClientOptions options;
  options.run = RunOf(side);
  options.max_block = kPatience;
  options.open_timeout = kPatience;
  options.user_agent = "msit";
  options.interrupt = {
      [](void* interrupts) -> int32_t {
        return static_cast<ctl::Interrupts*>(interrupts)->interrupted() ? 1 : 0;
      },
      &interrupts_};
  std::unique_ptr<client::Transport, client::TransportDestroyer> transport(
      new client::GrpcTransport(runs_->target()));
  MSITD_RETURN_IF_ERROR(StatusOf(
      client::Client::Open(std::move(options), std::move(transport), &client),
      ""));
  return client.get();
}

absl::Status PrivateComparison::Close(std::unique_ptr<client::Client> client) {
  if (client == nullptr) return absl::OkStatus();
  const client::Status status = client->Close(kPatience);
  const std::string stream_error = client->stream_error();
  const client::ClientCounters counters = client->counters();
  MSITD_RETURN_IF_ERROR(StatusOf(status, stream_error));
  if (counters.acknowledged_count != counters.recorded_count) {
    return absl::UnavailableError("the daemon did not take all tensors: " +
                                  stream_error);
  }
  return absl::OkStatus();
}

absl::Status PrivateComparison::Record(Side side, const std::string& op,
                                       const Tensor& tensor) {
  const ctl::Interrupts::Hold hold(interrupts_);
  MSITD_ASSIGN_OR_RETURN(client::Client* const client, Open(side));
  client::TensorView view;
  view.token = 0;
  view.op = op;
  view.io = Io::kOutput;
  view.index = "0";
  view.dtype = tensor.dtype;
  view.dims = tensor.shape;
  view.data = tensor.bytes.data();
  return StatusOf(client->Record(view), client->stream_error());
}

absl::StatusOr<PrivateComparison::Result> PrivateComparison::Compare() {
  {
    const ctl::Interrupts::Hold hold(interrupts_);
    for (std::unique_ptr<client::Client>& client : clients_) {
      MSITD_RETURN_IF_ERROR(Close(std::move(client)));
    }
  }
  Result result;
  result.comparison.set_golden_run(RunOf(Side::kGolden));
  result.comparison.set_target_run(RunOf(Side::kMy));
  MSITD_RETURN_IF_ERROR(runs_->Compare(
      result.comparison,
      [&result](const v1::Comparison&, const v1::ComparisonRow& row) {
        result.rows.push_back(row);
        return absl::OkStatus();
      }));
  return result;
}

}  // namespace msitd::msit
