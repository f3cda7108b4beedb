// The input is a GGUF file. Reads its metadata, tensor list and tokenizer, and builds the programs
// of the model and of its layer that predicts a token (MTP). The seeds are heads of files; zeros
// follow.
#include "engine/base/error.h"
#include "models/heads/heads.h"
#include "models/open.h"
#include "models/text/chat_templates.h"
#include "models/text/open_tokenizer.h"
#include "tests/fuzz/driver.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skald;
  constexpr size_t kZeros = size_t{1} << 20;
  const MemoryFile file(data, size, kZeros);
  try {
    find_chat_templates(file.path());
    const auto tokenizer = open_tokenizer(file.path());
    tokenizer->decode(tokenizer->encode("Hello  world\n12345 \xF0\x9F\x98\x80 \xFF", {}));
  } catch (const Error&) {
  }
  try {
    const OpenedModel opened = open_model(file.path());
    opened.model.program();
    opened.model.weights->check_whole();
    open_mtp(opened);
  } catch (const Error&) {
  }
  return 0;
}
