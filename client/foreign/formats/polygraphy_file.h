// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/foreign/formats/file_entry.h"

namespace msitd::formats {

// Returns true for JSON with an array as Polygraphy writes it in its first
// kPolygraphyProbeBytes.
bool IsPolygraphy(const ByteSource& bytes);

// Opens JSON that Polygraphy wrote with --save-outputs or --save-inputs:
// objects whose member `array` is a .npy file in base64.
//
// An output is named as in the file. If the file has several iterations,
// `iteration<N>/` precedes the name, and if it has several runners,
// `runner<N>/` does, counted from 0 in the order of the file. Names of runners
// are not used, because they contain the time of the run. Arrays at other
// places have their path in the JSON as name. Tensors of torch, and arrays in
// the form of versions before 0.33, have a problem.
//
// The decoded arrays are held in memory, at most kPolygraphyBytesMax.
OpenedFile OpenPolygraphy(std::shared_ptr<const ByteSource> bytes,
                          const OpenOptions& options);

}  // namespace msitd::formats
