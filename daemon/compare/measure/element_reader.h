// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/measure/tensor_stream.h"
#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/work_observer.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Reads the elements of one side of a pair from the first to the last, as
// numbers or as bytes. For the few pairs that are looked at twice; the
// measurer is many times faster.
//
// Thread-compatible. Borrows the run and the observer.
class ElementReader {
 public:
  // Errors: those of StoredSource and TensorStream.
  static absl::StatusOr<std::unique_ptr<ElementReader>> Open(
      const LogicalTensor& tensor, std::string_view side,
      storage::RunReader& run, WorkObserver& observer);

  // Append the next `count` elements to `out`, or pass them over if it is null.
  //
  // Errors: FAILED_PRECONDITION for a type that is not a float of 16 bits or
  // more, or not an integer of 16 bits or more; those of TensorStream;
  // CANCELLED once the observer says so.
  absl::Status Next(uint64_t count, std::vector<double>* out);
  absl::Status Next(uint64_t count, std::vector<int64_t>* out);
  absl::Status Next(uint64_t count, std::string* out);

 private:
  template <typename Out>
  absl::Status NextAs(uint64_t count, Out* out);

  TensorSource source_;
  StreamBuffers buffers_;
  std::unique_ptr<TensorStream> stream_;
  WorkObserver* observer_ = nullptr;
};

}  // namespace msitd::compare
