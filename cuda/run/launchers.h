// The launcher of each row of the kernel table. A row without a launcher does not link.
#pragma once

#include "cuda/plan/kernel_table.h"

namespace skald::cuda {

void launch(const ProductKernel& kernel, const ProductCall& call);
void launch(const AttentionKernel& kernel, const AttentionLaunch& launch, Stream stream);
void launch(const DeltaKernel& kernel, const DeltaLaunch& launch, Stream stream);
void launch(const SpaceKernel& kernel, const SpaceLaunch& launch, Stream stream);
void launch(const ExpertsKernel& kernel, const ExpertsLaunch& launch, Stream stream);

}  // namespace skald::cuda
