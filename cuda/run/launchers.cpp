#include "cuda/run/launchers.h"

#include <array>
#include <iterator>
#include <utility>

namespace skald::cuda {
namespace {

// A kernel's index in its table is the index of its launcher here.
template <size_t... I>
constexpr auto products(std::index_sequence<I...>) {
  return std::array{&launch_product<kProductKernels[I].id()>...};
}
template <size_t... I>
constexpr auto attention(std::index_sequence<I...>) {
  return std::array{&launch_attention<kAttentionKernels[I].id()>...};
}
template <size_t... I>
constexpr auto delta(std::index_sequence<I...>) {
  return std::array{&launch_delta<kDeltaKernels[I].id()>...};
}
template <size_t... I>
constexpr auto space(std::index_sequence<I...>) {
  return std::array{&launch_space<kSpaceKernels[I].id()>...};
}
template <size_t... I>
constexpr auto experts(std::index_sequence<I...>) {
  return std::array{&launch_experts<kExpertsKernels[I].id()>...};
}

constexpr auto kProducts = products(std::make_index_sequence<std::size(kProductKernels)>());
constexpr auto kAttention = attention(std::make_index_sequence<std::size(kAttentionKernels)>());
constexpr auto kDelta = delta(std::make_index_sequence<std::size(kDeltaKernels)>());
constexpr auto kSpace = space(std::make_index_sequence<std::size(kSpaceKernels)>());
constexpr auto kExperts = experts(std::make_index_sequence<std::size(kExpertsKernels)>());

}  // namespace

void launch(const ProductKernel& kernel, const ProductCall& call) {
  kProducts[static_cast<size_t>(&kernel - kProductKernels)](call);
}

void launch(const AttentionKernel& kernel, const AttentionLaunch& launch, Stream stream) {
  kAttention[static_cast<size_t>(&kernel - kAttentionKernels)](launch, stream);
}

void launch(const DeltaKernel& kernel, const DeltaLaunch& launch, Stream stream) {
  kDelta[static_cast<size_t>(&kernel - kDeltaKernels)](launch, stream);
}

void launch(const SpaceKernel& kernel, const SpaceLaunch& launch, Stream stream) {
  kSpace[static_cast<size_t>(&kernel - kSpaceKernels)](launch, stream);
}

void launch(const ExpertsKernel& kernel, const ExpertsLaunch& launch, Stream stream) {
  kExperts[static_cast<size_t>(&kernel - kExpertsKernels)](launch, stream);
}

}  // namespace skald::cuda
