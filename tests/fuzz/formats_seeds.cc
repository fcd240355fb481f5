// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/formats_seeds.h"

#include "client/import/formats/ge_names.h"
#include "tests/unit/client/import/formats/ge_dump_bytes.h"
#include "tests/unit/client/import/formats/read_all.h"

namespace msitd::fuzz {
namespace {

using formats::kFormatFractalNz;
using formats::kFormatFractalZ;
using formats::kFormatHwcn;
using formats::kFormatNc1hwc0;
using formats::kFormatNdc1hwc0;
using formats::NpyOf;

std::string Npy(const std::string& descr, const std::string& order) {
  return NpyOf("{'descr': " + descr + ", 'fortran_order': " + order +
                   ", 'shape': (2, 3), }     \n",
               "0123456789abcdefghijklmn");
}

// An output and an input of at most 48 bytes.
std::string GeDump(int type, int64_t format, std::vector<uint64_t> shape,
                   std::vector<uint64_t> original) {
  formats::ge::DumpData head;
  head.set_op_name("op");
  head.add_attr("attr");
  head.add_space()->set_size(3);
  formats::SetTensor(type, static_cast<int>(format), shape, original, 48,
                     *head.add_output());
  formats::SetTensor(type, static_cast<int>(format), shape, original, 50,
                     *head.add_input());
  head.mutable_input(0)->set_address(0);
  return formats::GeDumpOf(head, std::string(101, 'x'));
}

std::string Safetensors() {
  const std::string head =
      R"({"__metadata__":{"format":"pt"},)"
      R"("b":{"dtype":"BF16","shape":[2,1],"data_offsets":[2,6]},)"
      R"("f":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})";
  return formats::BytesOf<uint64_t>({head.size()}) + head + "0123456";
}

uint32_t Crc32(const std::string& bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (crc % 2 == 0 ? 0 : 0xedb88320);
    }
  }
  return ~crc;
}

// An archive of one stored member.
std::string Npz(const std::string& name, const std::string& bytes) {
  using formats::BytesOf;
  const auto size = static_cast<uint32_t>(bytes.size());
  const auto name_size = static_cast<uint16_t>(name.size());
  const std::string about = BytesOf<uint16_t>({20, 0, 0, 0, 0x21}) +
                            BytesOf<uint32_t>({Crc32(bytes), size, size}) +
                            BytesOf<uint16_t>({name_size, 0});
  const std::string local = "PK\x03\x04" + about + name + bytes;
  const std::string central = "PK\x01\x02" + BytesOf<uint16_t>({20}) + about +
                              std::string(14, '\0') + name;
  return local + central + "PK\x05\x06" + BytesOf<uint16_t>({0, 0, 1, 1}) +
         BytesOf<uint32_t>({static_cast<uint32_t>(central.size()),
                            static_cast<uint32_t>(local.size())}) +
         BytesOf<uint16_t>({0});
}

std::string Atb(const std::string& rest) {
  return "$Version=1.0\n$Object.Count=1\n$Object.Length=4\nformat=2\ndtype=1\n"
         "dims=1,1,2\n" +
         rest;
}

}  // namespace

std::vector<std::string> FormatsSeeds() {
  return {Safetensors(),
          Npz("inputs.npy", Npy("'<f4'", "True")),
          Atb("$Object.data=0,4\n$End=1\n1234"),
          Atb("data=other\n$End=1\n"),
          Atb("max=1\nmin=0\n$End=1\n"),
          GeDump(2, kFormatFractalNz, {2, 1, 2, 4, 2}, {2, 3, 4}),
          GeDump(4, kFormatNc1hwc0, {1, 2, 2, 3, 4}, {1, 7, 2, 3}),
          GeDump(28, kFormatNdc1hwc0, {1, 2, 2, 3, 2, 4}, {1, 7, 2, 3, 2}),
          GeDump(37, kFormatFractalZ, {6, 1, 2, 4}, {2, 3, 2, 3}),
          GeDump(29, kFormatHwcn, {2, 3, 4, 2}, {2, 4, 2, 3}),
          Npy("'<f4'", "False"),
          Npy("'>i2'", "True"),
          Npy("'|O'", "False"),
          Npy("[('a', '<f4')]", "False")};
}

}  // namespace msitd::fuzz
