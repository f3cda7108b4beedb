// Launches gemv_q_experts_sm90 for the chosen experts of one row.
#include "cuda/kernels/experts/experts_one_row.h"

#include "engine/base/check.h"

namespace skald::cuda {

void launch_gemv_q_experts_sm90(const ExpertsLaunch& a, Stream stream) {
  check(!a.slots, "gemv_q_experts_sm90 reads experts where they all lie");
  LinearLaunch launch = {};
  static_cast<LinearShape&>(launch) = one_row_product(a, a.routing);
  launch.weight = a.weight;
  launch.bias = a.bias;
  launch.in = a.in;
  launch.out = a.out;
  launch.chosen = {a.routing.chosen, a.routing.weights, a.stride, a.chosen_early, a.shared};
  check(a.with_shared == (a.shared != nullptr), "a shared expert has a matrix");
  launch.gemv.ticket = a.tickets;
  launch.gemv_q.signal = a.signal;
  launch.gemv_q.wait = a.wait;
  launch.router.logits = a.router_logits;
  launch.router.spec.count = a.routing.count;
  if (a.route) {
    const RouteLaunch& route = *a.route;
    check(!a.by_place && !route.route_weight, "gate and up route the row, with the norm of both");
    launch.in = route.x;
    launch.norm_weight = route.norm_weight;
    launch.norm_eps = route.norm_eps;
    launch.router = {route.router,    route.bias,       route.choice_bias, route.spec,
                     a.router_logits, a.routing.chosen, a.routing.weights, a.shared_gate};
  } else {
    // The next kernel may read the choice ahead of its wait, and this one's wait is for the choice.
    launch.gemv_q.next_starts_late = !a.chosen_early;
  }
  launch_gemv_q_experts_sm90(launch, a.multiprocessors, stream);
}

template <>
void launch_experts<kernel_id("gemv_q_experts_sm90")>(const ExpertsLaunch& launch, Stream stream) {
  launch_gemv_q_experts_sm90(launch, stream);
}

}  // namespace skald::cuda
