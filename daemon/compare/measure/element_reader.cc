// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/element_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "daemon/compare/measure/pair_source.h"
#include "protos/base/dtype.h"
#include "protos/compute/number/element.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

template <typename T>
T Loaded(const std::byte* bytes) {
  T out;
  std::memcpy(&out, bytes, sizeof(T));
  return out;
}

absl::Status Decode(DType type, std::span<const std::byte> bytes,
                    std::vector<double>& out) {
  if (type != DType::kFloat64 && type != DType::kFloat32 &&
      type != DType::kBfloat16 && type != DType::kFloat16) {
    return absl::FailedPreconditionError("no type of scores");
  }
  const size_t count = bytes.size() / ElementBytes(type);
  out.resize(out.size() + count);
  compute::ToDouble(type, bytes.data(), count, out.data() + out.size() - count);
  return absl::OkStatus();
}

absl::Status Decode(DType type, std::span<const std::byte> bytes,
                    std::vector<int64_t>& out) {
  const size_t size = ElementBytes(type);
  for (size_t i = 0; i + size <= bytes.size(); i += size) {
    const std::byte* const at = bytes.data() + i;
    switch (type) {
      case DType::kInt64:
      case DType::kUint64:
        out.push_back(Loaded<int64_t>(at));
        break;
      case DType::kInt32:
        out.push_back(Loaded<int32_t>(at));
        break;
      case DType::kUint32:
        out.push_back(Loaded<uint32_t>(at));
        break;
      case DType::kInt16:
        out.push_back(Loaded<int16_t>(at));
        break;
      case DType::kUint16:
        out.push_back(Loaded<uint16_t>(at));
        break;
      default:
        return absl::FailedPreconditionError("no type of choices");
    }
  }
  return absl::OkStatus();
}

absl::Status Decode(DType /*type*/, std::span<const std::byte> bytes,
                    std::string& out) {
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ElementReader>> ElementReader::Open(
    const LogicalTensor& tensor, std::string_view side, storage::RunReader& run,
    WorkObserver& observer) {
  auto out = std::make_unique<ElementReader>();
  MSITD_ASSIGN_OR_RETURN(out->source_,
                         StoredSource(tensor, side, run, observer));
  MSITD_ASSIGN_OR_RETURN(
      out->stream_, TensorStream::Open(out->source_, observer, out->buffers_));
  out->observer_ = &observer;
  return out;
}

template <typename Out>
absl::Status ElementReader::NextAs(uint64_t count, Out* out) {
  while (count > 0) {
    if (stream_->rest_count() == 0) {
      MSITD_RETURN_IF_ERROR(observer_->Check());
      MSITD_RETURN_IF_ERROR(stream_->Fill());
      if (stream_->rest_count() == 0) {
        return absl::DataLossError("a tensor has too few elements");
      }
    }
    const uint64_t step = std::min(count, stream_->rest_count());
    const auto bytes = stream_->Take(step);
    if (out != nullptr) {
      MSITD_RETURN_IF_ERROR(Decode(stream_->dtype(), bytes, *out));
    }
    count -= step;
  }
  return absl::OkStatus();
}

absl::Status ElementReader::Next(uint64_t count, std::vector<double>* out) {
  return NextAs(count, out);
}

absl::Status ElementReader::Next(uint64_t count, std::vector<int64_t>* out) {
  return NextAs(count, out);
}

absl::Status ElementReader::Next(uint64_t count, std::string* out) {
  return NextAs(count, out);
}

}  // namespace msitd::compare
