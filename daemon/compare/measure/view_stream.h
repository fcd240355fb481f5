// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/compare/measure/tensor_stream.h"
#include "daemon/compare/work_observer.h"

namespace msitd::compare {

// Size of the pieces of a view. A view that reads its tensors in order has
// small pieces, which stay in the cache until they are compared. Other views
// have large ones, because every piece may need a pass over the tensors: a
// tensor of n bytes is read at most about n / kViewPieceBytesMax times.
inline constexpr uint64_t kViewPieceBytes = uint64_t{256} << 10;
inline constexpr uint64_t kViewPieceBytesMax = uint64_t{32} << 20;

// Opens a stream of the elements of a view, in the order of the view.
// `source.view` must be set. Borrows its arguments.
//
// Errors: those of TensorStream::Open.
absl::StatusOr<std::unique_ptr<TensorStream>> OpenViewStream(
    const TensorSource& source, WorkObserver& observer, StreamBuffers& buffers);

}  // namespace msitd::compare
