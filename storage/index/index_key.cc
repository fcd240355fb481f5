// SPDX-License-Identifier: Apache-2.0
#include "storage/index/index_key.h"

#include "protos/base/byte_codec.h"
#include "protos/base/limits.h"

namespace msitd::storage {

static_assert(kRankMax < 1 << 24);
static_assert(kTokenMax < int64_t{1} << 40);
static_assert(kTensorBytesMax / kPartBytes <= 1 << 24);

EncodedKey EncodeIndexKey(const IndexKey& key) {
  EncodedKey out;
  char* end = out.data();
  end = PutBigEndian(end, key.run, 4);
  end = PutBigEndian(end, key.rank, 3);
  end = PutBigEndian(end, key.device, 4);
  end = PutBigEndian(end, key.token, 5);
  end = PutBigEndian(end, key.op, 4);
  end = PutBigEndian(end, key.call, 4);
  end = PutBigEndian(end, static_cast<uint64_t>(key.io), 1);
  end = PutBigEndian(end, key.index, 4);
  PutBigEndian(end, key.part, 3);
  return out;
}

std::optional<IndexKey> DecodeIndexKey(std::string_view bytes) {
  if (bytes.size() != kIndexKeyBytes) return std::nullopt;
  const char* in = bytes.data();
  IndexKey key;
  key.run = static_cast<uint32_t>(GetBigEndian(in, 4));
  key.rank = static_cast<uint32_t>(GetBigEndian(in + 4, 3));
  key.device = static_cast<uint32_t>(GetBigEndian(in + 7, 4));
  key.token = GetBigEndian(in + 11, 5);
  key.op = static_cast<uint32_t>(GetBigEndian(in + 16, 4));
  key.call = static_cast<uint32_t>(GetBigEndian(in + 20, 4));
  key.io = static_cast<Io>(in[24]);
  key.index = static_cast<uint32_t>(GetBigEndian(in + 25, 4));
  key.part = static_cast<uint32_t>(GetBigEndian(in + 29, 3));
  return key;
}

}  // namespace msitd::storage
