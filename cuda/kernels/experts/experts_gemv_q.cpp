// Launches gemv_q_sm90 for the chosen experts of one row.
#include "cuda/kernels/experts/experts_one_row.h"
#include "engine/base/check.h"

namespace skald::cuda {

void launch_experts_gemv_q(const ExpertsLaunch& a, Stream stream) {
  check(!a.slots, "gemv_q_sm90 reads experts where they all lie");
  LinearLaunch launch = {};
  static_cast<LinearShape&>(launch) = one_row_product(a, a.routing);
  launch.weight = a.weight;
  launch.bias = a.bias;
  launch.in = a.in;
  launch.out = a.out;
  launch.chosen = {a.routing.chosen, a.routing.weights, a.stride, a.chosen_early};
  launch.gemv.ticket = a.tickets;
  launch.gemv_q.signal = a.signal;
  launch.gemv_q.wait = a.wait;
  // The next kernel may read the choice of experts ahead of its wait.
  launch.gemv_q.late_start = !a.chosen_early;
  if (a.partner) {
    launch_gemv_q_of_pair_sm90(launch, *a.partner, a.multiprocessors, stream);
  } else {
    launch_gemv_q_sm90(launch, a.multiprocessors, stream);
  }
}

template <>
void launch_experts<kernel_id("gemv_q_sm90 (experts)")>(const ExpertsLaunch& launch,
                                                       Stream stream) {
  launch_experts_gemv_q(launch, stream);
}

}  // namespace skald::cuda
