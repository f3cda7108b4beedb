// What the option --without leaves out: skald_gpu_tests --without graphs,dependent,clusters
#pragma once

#include "cuda/cuda.h"

namespace skald::test {

inline cuda::Switches& switches() {
  static cuda::Switches chosen;
  return chosen;
}

}  // namespace skald::test
