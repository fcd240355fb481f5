// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/compare/measure/tensor_stream.h"
#include "daemon/compare/view/read_cost.h"
#include "daemon/compare/work_observer.h"

namespace msitd::compare {

// Size of the pieces of a view. A view that reads its tensors in order has
// small pieces, which stay in the cache until they are compared. Other views
// have large ones, because every piece needs one or more passes over the
// tensors. A tensor of n bytes is read about n / kViewPieceBytesMax times if
// the runs of elements that are copied are long, and more often if they are
// short, but about kViewReadsMax times at most; see
// daemon/compare/view/read_cost.h.
inline constexpr uint64_t kViewPieceBytes = uint64_t{256} << 10;
inline constexpr uint64_t kViewPieceBytesMax = kPassBytesMax;

// Opens a stream of the elements of a view, in the order of the view.
// `source.view` must be set. Borrows its arguments.
//
// Errors: those of TensorStream::Open.
absl::StatusOr<std::unique_ptr<TensorStream>> OpenViewStream(
    const TensorSource& source, WorkObserver& observer, StreamBuffers& buffers);

}  // namespace msitd::compare
