// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/coarsest_type.h"

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/compare/judge/basis.h"
#include "protos/base/selector.h"

namespace msitd::compare {

DType CoarsestType(storage::RunReader& run, int32_t rank,
                   storage::StopCheck stop) {
  Selector selector;
  selector.ranks = {rank};
  selector.ios = {Io::kOutput};
  const auto scan = run.Scan(selector, "");
  DType out = DType::kUnspecified;
  if (!scan.ok()) return out;
  storage::TensorInfo tensor;
  for (int count = 0; count < kTypedRecordsMax; ++count) {
    const absl::StatusOr<bool> more = (*scan)->Next(tensor, stop);
    if (!more.ok() || !*more) break;
    out = Coarser(out, tensor.dtype);
  }
  return out;
}

}  // namespace msitd::compare
