// The input is a config.json. Parses it, lets the family that it names read its settings, and
// computes the rope frequencies of its longest context.
#include "engine/base/error.h"
#include "models/families/family.h"
#include "models/files/hf_config.h"
#include "tests/fuzz/driver.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skald;
  const MemoryFile file(data, size);
  try {
    const HfConfig config = HfConfig::read(file.path());
    const Family& family = family_for_hf(config.text("model_type"), config.where());
    const ModelConfig c = family.from_hf(config);
    if (c.rope.by_context) c.rope.by_context(c.context);
  } catch (const Error&) {
  }
  return 0;
}
