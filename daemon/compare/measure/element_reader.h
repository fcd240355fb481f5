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
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Reads the elements of one side of a pair in row-major order, as numbers or as
// bytes. It is used for the few pairs whose elements are examined after they
// were measured. PairMeasurer is many times faster.
//
// Thread-compatible. Borrows the run and the observer.
class ElementReader {
 public:
  // `side` is "golden" or "target". Errors: those of StoredSource and
  // TensorStream::Open.
  static absl::StatusOr<std::unique_ptr<ElementReader>> Open(
      const LogicalTensor& tensor, std::string_view side,
      storage::RunReader& run, WorkObserver& observer);

  // Type of the elements.
  DType dtype() const { return stream_->dtype(); }

  // Appends the next `count` elements to `out`, or skips them if `out` is null.
  //
  // Errors: FAILED_PRECONDITION if `out` is a list of doubles and the type is
  // not a float of 16 bits or more, or if `out` is a list of integers and the
  // type is not an integer of 16 bits or more; DATA_LOSS if fewer elements are
  // left; those of TensorStream::Fill; CANCELLED if the observer ends the
  // comparison.
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

// Returns all elements of one side of a pair: doubles, integers or bytes, as
// ElementReader::Next does.
template <typename Elements>
absl::StatusOr<Elements> ReadElements(const LogicalTensor& tensor,
                                      std::string_view side,
                                      storage::RunReader& run,
                                      WorkObserver& observer) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<ElementReader> reader,
                         ElementReader::Open(tensor, side, run, observer));
  Elements out;
  MSITD_RETURN_IF_ERROR(reader->Next(ElementCount(tensor.shape), &out));
  return out;
}

}  // namespace msitd::compare
