// All families. Each is defined in the file of its name.
#pragma once

#include "models/families/family.h"

namespace skald {

extern const Family kCohere2;
extern const Family kGemma;
extern const Family kGemma2;
extern const Family kGemma3;
extern const Family kGranite;
extern const Family kLlama;
extern const Family kMistral;
extern const Family kMixtral;
extern const Family kOlmo2;
extern const Family kPhi3;
extern const Family kQwen2;
extern const Family kQwen3;
extern const Family kQwen3Moe;
extern const Family kSmolLM3;

}  // namespace skald
