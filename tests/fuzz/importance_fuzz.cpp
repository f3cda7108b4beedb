// The input is an importance matrix, as a GGUF or as an old file of llama.cpp.
#include "engine/base/error.h"
#include "models/convert/importance.h"
#include "tests/fuzz/driver.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skald;
  const MemoryFile file(data, size);
  try {
    const ImportanceFile importances(file.path());
    MadeTensor tensor = {
        .name = "a", .shape = {2, 2, 32}, .source = {nullptr, DType::F32, 4, 32, 128}};
    importances.give(tensor);
  } catch (const Error&) {
  }
  return 0;
}
