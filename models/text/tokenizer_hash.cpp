#include "models/text/tokenizer_hash.h"

#include <algorithm>

#include "engine/base/sha256.h"

namespace skald {
namespace {

constexpr std::string_view kProbe =
    "Hello, World! It's 12345.67 o'clock;  they'LL say \"I've\" 2nd\n\n\tif (x == y) { z++; }\r\n"
    "   indented   \n \n Ångström naïve cafe\xcc\x81 ﬁ ½ ² Привет, мир Γειά σου שלום مرحبا नमस्ते "
    "สวัสดี 你好，世界。 こんにちは 안녕하세요 👩‍👩‍👧 "
    "🇩🇪 "
    "①②③ "
    "𝒳 "
    "\xff\xfe\x80 "
    "a\xc2\xa0"
    "b\xe2\x80\x83"
    "c http://example.org/?q=1&r=%20 snake_case CamelCase AAAAAAAA ------ 0000000000 ";

constexpr int32_t kPieces = 512;

std::string probe_text(const Tokenizer& tokenizer) {
  std::string text(kProbe);
  const int32_t step = std::max(tokenizer.vocab_size() / kPieces, 1);
  for (int32_t id = 0; id < tokenizer.vocab_size(); id += step) {
    if (!tokenizer.joins(id)) text.append(tokenizer.piece_bytes(id)).append(" ");
  }
  return text;
}

}  // namespace

std::string tokenizer_hash(const Tokenizer& tokenizer) {
  Sha256 hash;
  const auto add = [&](int64_t number) { hash.add_number(static_cast<uint64_t>(number)); };
  hash.add_field("skald tokenizer 1");
  add(tokenizer.vocab_size());
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    hash.add_field(tokenizer.piece(id));
    add(static_cast<int64_t>(tokenizer.kind(id)));
  }
  const SpecialTokens& special = tokenizer.special();
  for (const int32_t id : {special.bos, special.eos, special.unk}) add(id);
  for (const bool added : {special.add_bos, special.add_eos}) add(added);
  for (const int32_t id : tokenizer.encode(probe_text(tokenizer))) add(id);
  return hash.hex();
}

}  // namespace skald
