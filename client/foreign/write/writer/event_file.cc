// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/event_file.h"

#include <fmt/format.h>

#include <bit>
#include <boost/crc.hpp>
#include <cstring>

namespace msitd::write {
namespace {

static_assert(std::endian::native == std::endian::little);

using Crc32c =
    boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true>;

// Numbers of fields of tensorflow.Event, Summary and Summary.Value.
enum Field : uint32_t {
  kWallTime = 1,
  kStep = 2,
  kFileVersion = 3,
  kSummary = 5,
  kValue = 1,
  kTag = 1,
  kSimpleValue = 2
};

enum WireType : uint32_t { kVarint = 0, kEight = 1, kBytes = 2, kFour = 5 };

template <typename Number>
void Append(Number number, std::string& out) {
  char bytes[sizeof(Number)];
  std::memcpy(bytes, &number, sizeof(Number));
  out.append(bytes, sizeof(Number));
}

void AppendVarint(uint64_t number, std::string& out) {
  while (number >= 0x80) {
    out.push_back(static_cast<char>(number | 0x80));
    number >>= 7;
  }
  out.push_back(static_cast<char>(number));
}

void AppendKey(Field field, WireType type, std::string& out) {
  AppendVarint(field << 3 | type, out);
}

void AppendBytes(Field field, std::string_view bytes, std::string& out) {
  AppendKey(field, kBytes, out);
  AppendVarint(bytes.size(), out);
  out += bytes;
}

uint32_t MaskedCrc(std::string_view data) {
  Crc32c crc;
  crc.process_bytes(data.data(), data.size());
  const uint32_t sum = crc.checksum();
  return std::rotr(sum, 15) + 0xa282ead8;
}

std::string EventOf(double time_s) {
  std::string out;
  AppendKey(kWallTime, kEight, out);
  Append(time_s, out);
  return out;
}

}  // namespace

std::string EventFileName(int64_t time_s) {
  return fmt::format("events.out.tfevents.{}.msitd", time_s);
}

std::string EventFileStart(double time_s) {
  std::string event = EventOf(time_s);
  AppendBytes(kFileVersion, "brain.Event:2", event);
  return TfRecord(event);
}

std::string EventRecord(double time_s, int64_t step,
                        std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    AppendBytes(kTag, scalar.tag, value);
    AppendKey(kSimpleValue, kFour, value);
    Append(scalar.value, value);
    AppendBytes(kValue, value, summary);
  }
  std::string event = EventOf(time_s);
  AppendKey(kStep, kVarint, event);
  AppendVarint(static_cast<uint64_t>(step), event);
  AppendBytes(kSummary, summary, event);
  return TfRecord(event);
}

std::string TfRecord(std::string_view data) {
  std::string out;
  Append(uint64_t{data.size()}, out);
  Append(MaskedCrc(out), out);
  out += data;
  Append(MaskedCrc(data), out);
  return out;
}

}  // namespace msitd::write
