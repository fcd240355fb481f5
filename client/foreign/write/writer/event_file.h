// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Files of events as TensorBoard reads them: TFRecords, each of which has a
// message tensorflow.Event (tensorflow/core/util/event.proto).
namespace msitd::write {

// A value with a tag, which is its name in TensorBoard.
struct Scalar {
  std::string tag;
  float value = 0;
};

// Returns the name of a file of events, which TensorBoard recognizes.
// `time_s` are seconds since the epoch.
std::string EventFileName(int64_t time_s);

// Returns the first record of a file.
std::string EventFileStart(double time_s);

// Returns a record with values of one step.
std::string EventRecord(double time_s, int64_t step,
                        std::span<const Scalar> scalars);

// Returns a TFRecord: the length, the data, and a masked CRC-32C of either.
std::string TfRecord(std::string_view data);

}  // namespace msitd::write
