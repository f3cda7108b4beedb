// The input is an adapter: PEFT's configuration, with the scale that it gives to a matrix, or a
// GGUF.
#include "engine/base/error.h"
#include "models/adapters/lora_file.h"
#include "models/adapters/peft_config.h"
#include "models/open.h"
#include "tests/fuzz/driver.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skald;
  const MemoryFile file(data, size);
  try {
    if (is_gguf(file.path())) {
      open_lora(file.path());
    } else {
      const PeftConfig config = PeftConfig::read(file.path());
      config.rank_of("model.layers.1.self_attn.q_proj");
      config.scale_of("model.layers.1.self_attn.q_proj");
    }
  } catch (const Error&) {
  }
  return 0;
}
