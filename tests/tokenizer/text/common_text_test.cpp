#include "tokenizer/text/common_text.h"

#include "app/model/open.h"
#include "tests/catch.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

using Ids = std::vector<int32_t>;

TEST_CASE("common_text compares texts by bytes, however they are cut into tokens") {
  const auto tokenizer = open_tokenizer(bundled_model());
  const EncodeOptions plain{.add_bos = false, .starts_text = false};
  const auto cut = [&](std::initializer_list<const char*> parts) {
    Ids ids;
    for (const char* part : parts) {
      const Ids more = tokenizer->encode(part, plain);
      ids.insert(ids.end(), more.begin(), more.end());
    }
    return ids;
  };
  const Ids whole = cut({"Once upon a time there was"});
  const Ids parts = cut({"On", "ce up", "on a ti", "me there w", "a", "s"});
  CHECK(whole != parts);
  const CommonText same = common_text(*tokenizer, whole, parts);
  CHECK(same.a == whole.size());
  CHECK(same.b == parts.size());

  // The common part ends at the end of a token in both.
  const Ids longer = cut({"Once upon a time there was a", " fox"});
  const CommonText beginning = common_text(*tokenizer, longer, parts);
  CHECK(tokenizer->decode(std::span(longer).first(beginning.a)) ==
        tokenizer->decode(std::span(parts).first(beginning.b)));
  CHECK(beginning.b >= parts.size() - 3);

  const Ids other = cut({"Once upon a hill"});
  const CommonText differs = common_text(*tokenizer, whole, other);
  CHECK(tokenizer->decode(std::span(whole).first(differs.a)) == "Once upon a");
  CHECK(tokenizer->decode(std::span(other).first(differs.b)) == "Once upon a");
  CHECK(common_text(*tokenizer, {}, whole).a == 0);
  CHECK(common_text(*tokenizer, whole, {}).b == 0);
}

TEST_CASE("a control token equals only itself") {
  const auto tokenizer = open_tokenizer(bundled_model());
  const EncodeOptions plain{.add_bos = false, .starts_text = false};
  const int32_t bos = tokenizer->special().bos, eos = tokenizer->special().eos;
  const Ids text = tokenizer->encode("a</s>b", plain);
  Ids control = tokenizer->encode("a", plain);
  const size_t before = control.size();
  control.push_back(eos);
  CHECK(common_text(*tokenizer, text, control).b <= before);
  Ids same = control;
  control.push_back(text.back());
  same.push_back(text.back());
  CHECK(common_text(*tokenizer, same, control).a == same.size());
  same[before] = bos;
  CHECK(common_text(*tokenizer, same, control).a == before);
  // Ids outside of the vocabulary have no text, and the comparison continues after them.
  const Ids odd{bos, 100000, eos};
  CHECK(common_text(*tokenizer, odd, odd).a == 3);
}

}  // namespace
}  // namespace skald::test
