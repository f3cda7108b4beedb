// The input is a safetensors file. Reads its header, and every tensor's first and last byte.
#include "engine/base/error.h"
#include "models/files/safetensors.h"
#include "tests/fuzz/driver.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skald;
  const MemoryFile file(data, size);
  try {
    const auto weights =
        open_safetensors(file.path(), [](std::string_view name) { return std::string(name); });
    weights->check_whole();
    unsigned sum = 0;
    for (const Tensor& tensor : weights->tensors()) {
      const TensorView& view = tensor.view;
      if (view.bytes() == 0) continue;
      sum +=
          static_cast<unsigned>(view.data[0]) + static_cast<unsigned>(view.data[view.bytes() - 1]);
    }
    volatile unsigned used = sum;
    (void)used;
  } catch (const Error&) {
  }
  return 0;
}
