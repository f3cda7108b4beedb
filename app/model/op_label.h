// Names of ops for messages and tables.
#pragma once

#include <string>

#include "engine/program/program.h"

namespace skald {

std::string op_label(const Program& program, size_t op);  // "linear blk.5.ffn_down.weight"
int op_layer(const Program& program, size_t op);  // -1: before the first layer or after the last

}  // namespace skald
