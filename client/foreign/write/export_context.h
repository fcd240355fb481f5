// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/query/byte_sink.h"
#include "client/ask/query/read_ahead.h"
#include "client/foreign/write/export.h"
#include "client/foreign/write/output_folder.h"
#include "msitd/v1/run_service.pb.h"
#include "msitd/v1/tensor_service.pb.h"
#include "protos/base/order_label.h"

namespace msitd::write {

// The source of bytes and the destination of files that all layouts of an
// export share. Thread-compatible.
class ExportContext {
 public:
  // Borrows all arguments.
  ExportContext(ask::Connection& connection, const v1::Run& run,
                const ExportOptions& options, const ExportListener& listener,
                OutputFolder& folder, ExportCounts& counts)
      : connection_(connection),
        run_(run),
        options_(options),
        listener_(listener),
        folder_(folder),
        counts_(counts),
        has_known_order_(HasKnownOrder(run.labels())),
        reads_(connection) {}

  ask::Connection& connection() { return connection_; }
  const v1::Run& run() const { return run_; }
  const ExportOptions& options() const { return options_; }
  OutputFolder& folder() { return folder_; }
  // False if sequences of the run are not the order of execution.
  bool has_known_order() const { return has_known_order_; }

  // Announces the records that will be read next, in about this order. Accepts
  // a range, and copies what it needs.
  template <typename Records>
  void Expect(const Records& records) {
    std::vector<ask::WantedBytes> wanted;
    for (const v1::Tensor& record : records) {
      if (record.has_bytes() && record.size_bytes() > 0) {
        wanted.push_back({record.name(), record.size_bytes()});
      }
    }
    reads_.Expect(std::move(wanted));
  }

  // Passes the bytes of a tensor to `sink`. Returns DATA_LOSS if this tensor
  // cannot be read; this is counted as a problem, and others can follow. Any
  // other error ends the export.
  absl::Status Read(const v1::Tensor& tensor, const ask::ByteSink& sink);

  // Requests a list. Any error ends the export.
  absl::Status Ask(const v1::ListTensorsRequest& request,
                   v1::ListTensorsResponse& response);

  // Moves a file to its final name. Returns DATA_LOSS, counted as a problem of
  // `tensor`, if another record has that name. Files of tensors get times that
  // ascend with their sequence, starting at the creation of the run, because
  // readers of some folders use them as the order. If the order is not known,
  // all have the same time.
  absl::Status Commit(OutputFile& file, const v1::Tensor* tensor = nullptr);

  // Counts a record that is not written.
  void AddProblem(const v1::Tensor& tensor, std::string_view reason);

  // Counts a record that is written, with or without its bytes.
  void Count(const v1::Tensor& tensor, bool with_bytes = true);

  // Counts tensors that are in no list.
  void CountIncomplete(int64_t count) { counts_.incomplete_count += count; }

  // Counts a dump of msprobe that replaces the document of the run.
  void CountRemade() { ++counts_.remade_count; }

  // The reason for the last problem.
  const std::string& last_problem() const { return last_problem_; }

  // Returns the outcome of an export that ends with an error of the functions
  // above.
  ask::Outcome OutcomeOf(const absl::Status& status) const;

 private:
  void SetTime(const v1::Tensor& tensor, OutputFile& file) const;

  ask::Connection& connection_;
  const v1::Run& run_;
  const ExportOptions& options_;
  const ExportListener& listener_;
  OutputFolder& folder_;
  ExportCounts& counts_;
  const bool has_known_order_;
  ask::ReadAhead reads_;
  std::string last_problem_;
  // The error of the daemon that ended the export.
  ask::Outcome outcome_;
};

// Returns true for an error after which an export continues with the next
// record.
inline bool IsLost(const absl::Status& status) {
  return absl::IsDataLoss(status);
}

}  // namespace msitd::write
