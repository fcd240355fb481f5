// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/frame_payload.h"

#include "protos/base/limits.h"
#include "protos/os/aligned_buffer.h"

namespace msitd::chunk {

SampleSlice SampleOf(const RecordDescriptor& record) {
  if (record.payload_bytes == 0) return {};
  return msitd::SampleOf(TensorPart{.dtype = static_cast<DType>(record.dtype),
                                    .tensor_bytes = record.tensor_bytes,
                                    .offset = record.part_offset});
}

FramePayload::RecordBytes FramePayload::Next(const RecordDescriptor& record) {
  RecordBytes place;
  switch (kept_) {
    case Kept::kAll:
      place = {record.payload_offset, record.payload_bytes};
      break;
    case Kept::kSample:
      place = {AlignUp(end_, kRecordAlignment), SampleOf(record).bytes()};
      break;
    case Kept::kNothing:
      return {record.payload_offset, 0};
  }
  end_ = place.offset + place.bytes;
  return place;
}

}  // namespace msitd::chunk
