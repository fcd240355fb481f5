// SPDX-License-Identifier: Apache-2.0
#include "client/msit/pair/private_comparison.h"

#include <chrono>
#include <utility>

#include "client/libmsit/core/client.h"
#include "client/libmsit/grpc/grpc_transport.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

// How long the daemon may accept nothing.
constexpr std::chrono::microseconds kPatience = std::chrono::minutes(2);

const char* RunOf(PrivateComparison::Side side) {
  return side == PrivateComparison::Side::kGolden ? kGoldenRun : kMyRun;
}

}  // namespace

PrivateComparison::PrivateComparison(ask::Interrupts& interrupts)
    : interrupts_(interrupts) {}

PrivateComparison::~PrivateComparison() = default;

absl::StatusOr<std::unique_ptr<PrivateComparison>> PrivateComparison::Start(
    ask::Interrupts& interrupts) {
  std::unique_ptr<PrivateComparison> made(new PrivateComparison(interrupts));
  MSITD_ASSIGN_OR_RETURN(made->runs_, PrivateRuns::Start(interrupts));
  return made;
}

std::string PrivateComparison::FullDiskText() const {
  for (const std::unique_ptr<libmsit::Client>& client : clients_) {
    if (client == nullptr) continue;
    std::string text = client->stream_error();
    if (SaysDiskFull(text)) return text;
  }
  return "";
}

absl::Status PrivateComparison::StatusOf(const libmsit::Status& status) const {
  if (status.code == MSIT_OK) return absl::OkStatus();
  if (status.code == MSIT_ERROR_INVALID_ARGUMENT) {
    return absl::InvalidArgumentError(status.message);
  }
  if (interrupts_.interrupted()) return absl::CancelledError("interrupted");
  const std::string full = FullDiskText();
  if (!full.empty()) return DiskFullError(full);
  return absl::UnavailableError("the daemon accepts no tensors: " +
                                status.message);
}

absl::StatusOr<libmsit::Client*> PrivateComparison::Open(Side side) {
  std::unique_ptr<libmsit::Client>& client =
      clients_[static_cast<size_t>(side)];
  if (client != nullptr) return client.get();
  libmsit::ClientOptions options;
  options.run = RunOf(side);
  options.max_block = kPatience;
  options.open_timeout = kPatience;
  options.user_agent = "msit";
  options.interrupt = {[](void* context) -> int32_t {
                         const auto* const self =
                             static_cast<PrivateComparison*>(context);
                         const bool is_over = self->interrupts_.interrupted() ||
                                              !self->FullDiskText().empty();
                         return is_over ? 1 : 0;
                       },
                       this};
  std::unique_ptr<libmsit::Transport, libmsit::TransportDestroyer> transport(
      new libmsit::GrpcTransport(runs_->target()));
  MSITD_RETURN_IF_ERROR(StatusOf(libmsit::Client::Open(
      std::move(options), std::move(transport), &client)));
  return client.get();
}

absl::Status PrivateComparison::Close(Side side) {
  libmsit::Client* const client = clients_[static_cast<size_t>(side)].get();
  if (client == nullptr) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(StatusOf(client->Close(kPatience)));
  const libmsit::ClientCounters counters = client->counters();
  if (counters.acknowledged_count == counters.recorded_count) {
    return absl::OkStatus();
  }
  const std::string full = FullDiskText();
  if (!full.empty()) return DiskFullError(full);
  return absl::UnavailableError("the daemon did not accept all tensors: " +
                                client->stream_error());
}

absl::Status PrivateComparison::Record(Side side, const std::string& op,
                                       const Tensor& tensor) {
  const ask::Interrupts::Hold hold(interrupts_);
  MSITD_ASSIGN_OR_RETURN(libmsit::Client* const client, Open(side));
  libmsit::TensorView view;
  view.token = 0;
  view.op = op;
  view.io = Io::kOutput;
  view.index = "0";
  view.dtype = tensor.dtype;
  view.dims = tensor.shape;
  view.data = tensor.bytes.data();
  return StatusOf(client->Record(view));
}

absl::StatusOr<PrivateComparison::Result> PrivateComparison::Compare() {
  {
    const ask::Interrupts::Hold hold(interrupts_);
    for (const Side side : {Side::kGolden, Side::kMy}) {
      MSITD_RETURN_IF_ERROR(Close(side));
    }
    clients_ = {};
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

}  // namespace msitd::msit_command
