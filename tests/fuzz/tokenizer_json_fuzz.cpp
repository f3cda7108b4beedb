// The input is a tokenizer.json. It is parsed, its patterns are compiled, and it is used once.
#include <string_view>

#include "engine/base/error.h"
#include "tests/fuzz/driver.h"
#include "tokenizer/files/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skald;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    auto vocabulary = parse_hf_tokenizer(bytes, "tokenizer.json");
    if (!vocabulary) return 0;
    const auto tokenizer = make_bpe(std::move(*vocabulary));
    tokenizer->decode(tokenizer->encode("Once upon a  time\n12345 \xF0\x9F\x98\x80 \xFF", {}));
  } catch (const Error&) {
  }
  return 0;
}
