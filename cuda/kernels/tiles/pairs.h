// The pairs of formats for which one kernel multiplies two matrices: the formats that mixed model
// files use for queries and keys and for values.
#pragma once

#include <type_traits>

#include "cuda/kernels/tiles/formats.h"

namespace skald::tiles {

template <class F, class G>
struct Pair {};

template <class Fn, class... Pairs>
bool dispatch_pairs(DType first, DType second, const Fn& fn, Pairs... pairs) {
  bool found = false;
  const auto is = [](DType type, auto format) {
    bool same = false;
    dispatch(type, [&](auto f) { same = std::is_same_v<decltype(f), decltype(format)>; });
    return same;
  };
  const auto try_pair = [&]<class F, class G>(Pair<F, G> pair) {
    if (found || !is(first, F()) || !is(second, G())) return;
    found = true;
    fn(pair);
  };
  (try_pair(pairs), ...);
  return found;
}

// Calls fn with the pair of the formats' types. Returns false if no pair has them in this order.
template <class Fn>
bool dispatch_pair(DType first, DType second, const Fn& fn) {
  return dispatch_pairs(first, second, fn, Pair<Q4_K, Q6_K>(), Pair<Q5_K, Q6_K>(),
                        Pair<Q4_K, Q5_K>(), Pair<Q3_K, Q5_K>(), Pair<Q3_K, Q4_K>(),
                        Pair<Q2_K, Q4_K>(), Pair<Q2_K, Q3_K>(), Pair<IQ4_XS, Q5_K>(),
                        Pair<IQ4_NL, Q5_K>());
}

}  // namespace skald::tiles
