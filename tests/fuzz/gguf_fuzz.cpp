// A GGUF file: its metadata and tensor list, the family's configuration and program.
#include "engine/base/error.h"
#include "models/open.h"
#include "tests/fuzz/driver.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skald;
  const MemoryFile file(data, size);
  try {
    const OpenedModel opened = open_model(file.path());
    opened.model.program();
    opened.model.weights->check_whole();
  } catch (const Error&) {
  }
  return 0;
}
