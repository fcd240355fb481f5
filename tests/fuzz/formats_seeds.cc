// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/formats_seeds.h"

#include "client/foreign/formats/ge/ge_names.h"
#include "tests/unit/client/foreign/formats/ge_dump_bytes.h"
#include "tests/unit/client/foreign/formats/read_all.h"
#include "tests/unit/client/foreign/formats/zip_bytes.h"

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

// Returns an array of two rows, each with the smallest and the largest element
// of a tensor.
std::string MinMax() {
  return NpyOf(
      "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }     \n",
      "0123456789abcdef");
}

// Returns a GE dump of an output and an input of at most 48 bytes.
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

// Returns a pickle of a dict with two parameters that share a storage.
std::string TorchPickle() {
  const std::string storage =
      "((X\x07" + std::string(3, '\0') + "storagectorch\nHalfStorage\nX\x01" +
      std::string(3, '\0') + "0X\x03" + std::string(3, '\0') + "cpuK\x06tQ";
  const std::string tensor = "ctorch._utils\n_rebuild_tensor_v2\n" + storage +
                             "K\x01K\x02K\x03\x86K\x01K\x02\x86\x89" +
                             "ccollections\nOrderedDict\n)Rq\x01tR";
  return "\x80\x02}(\x8c\x01"
         "actorch._utils\n_rebuild_parameter\n" +
         tensor +
         "\x88h\x01\x87R\x8c\x01"
         "b](" +
         tensor +
         "J\xff\xff\xff\xff"
         "eu.";
}

std::string Torch(const std::string& byte_order) {
  return formats::ZipOf({{"x/data.pkl", TorchPickle()},
                         {"x/byteorder", byte_order},
                         {"x/data/0", "0123456789ab"}});
}

std::string Atb(const std::string& rest) {
  return "$Version=1.0\n$Object.Count=1\n$Object.Length=4\nformat=2\ndtype=1\n"
         "dims=1,1,2\n" +
         rest;
}

// Returns a dump of CANN nano with an input and an output.
std::string GeNano() {
  const std::string shape =
      formats::NanoValue(0, formats::BytesOf<int64_t>({1, 1, 2, 2})) +
      formats::NanoValue(1, formats::BytesOf<int64_t>({1, 2}));
  const std::string list = formats::BytesOf<uint32_t>({1}) +
                           formats::NanoInput(6, kFormatFractalNz, 8, shape);
  return formats::NanoDumpOf(
      formats::NanoValue(4, list) + formats::NanoValue(5, list),
      "01234567abcdefgh");
}

}  // namespace

std::vector<std::string> FormatsSeeds() {
  return {
      Safetensors(),
      GeNano(),
      "\x80\x02}(\x8c\x05valueN\x8c\x04meta}(\x8c\x04name\x8c\x01x\x8c\x01p}"
      "\x8c\x01qK\x01suu.",
      formats::ZipOf({{"inputs.npy", Npy("'<f4'", "True")}}),
      formats::ZipOf({{"inputs.npy", MinMax()}, {"outputs.npy", MinMax()}}),
      Torch("little"),
      Torch("big"),
      TorchPickle(),
      Atb("$Object.data=0,4\n$End=1\n1234"),
      Atb("data=other\n$End=1\n"),
      Atb("max=1\nmin=0\n$End=1\n"),
      "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,L2Norm\n"
      "Input,0,24,DT_FLOAT,ND,2x3,1.5e+10,-nan\nOutput,0,2,DT_X,-,-,NA,\n",
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
