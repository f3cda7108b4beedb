// All families: kLlama, kGemma, … (list.inc).
#pragma once

#include "models/families/family.h"

namespace skald {

#define FAMILY(name) extern const Family k##name;
#include "models/families/list.inc"
#undef FAMILY

}  // namespace skald
