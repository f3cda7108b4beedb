// What the file of a random model would say of it: the configuration that a family's builder reads.
#pragma once

#include "models/random/random_shapes.h"

namespace skald {

ModelConfig random_config(const RandomShape& shape);

}  // namespace skald
