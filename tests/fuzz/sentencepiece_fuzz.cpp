// The input is a tokenizer.model. It is parsed, checked, rewritten for the library, and used once.
#include <string_view>

#include "engine/base/error.h"
#include "tests/fuzz/driver.h"
#include "tokenizer/sentencepiece/sentencepiece.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skald;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = make_sentencepiece(parse_sentencepiece(bytes, "tokenizer.model"));
    tokenizer->decode(tokenizer->encode("Once upon a  time\n\xF0\x9F\x98\x80 \xFF", {}));
  } catch (const Error&) {
  }
  return 0;
}
