// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>
#include <unordered_map>

#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/request/cache_view.h"
#include "daemon/compare/request/request_join.h"
#include "daemon/compare/request/token_caches.h"
#include "daemon/compare/view/tensor_view.h"

namespace msitd::compare {

// The caches of one part of a request.
//
// A cache of attention has all positions of a request so far, wherever they
// are. That of a golden token is compared with that of the target token that
// has the same last position, up to the positions that both certainly have:
// those of a result end with the positions of its forward, those of an argument
// or a state before them, because it was recorded before the forward may have
// added to it. Positions that are processed again later, as after a rejected
// draft, are left out.
//
// Thread-compatible.
class CachedRows {
 public:
  // Forgets the caches of the part before. Borrows the part.
  void Begin(const JoinedPart& part);

  // Returns a cache of one run as the positions of the request. Borrows the
  // tensor.
  LogicalTensor Add(bool is_target, const LogicalTensor& tensor,
                    const TokenCaches& caches);

  // Lets the caches of each pair have the same positions, and states why others
  // are not compared.
  void Fit(TensorGroup& group);

 private:
  const CachedTensor* Find(const LogicalTensor* tensor) const;
  void FitPair(TensorPair& pair, TensorGroup& group);
  void FitAlone(const TensorPair& pair, TensorGroup& group) const;

  const JoinedPart* part_ = nullptr;
  std::deque<CachedTensor> tensors_;
  std::unordered_map<const TensorView*, const CachedTensor*> by_view_;
  CacheCuts cuts_;
};

}  // namespace msitd::compare
