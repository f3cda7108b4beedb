// GLM-4: what its configuration says, and what is refused. The golden is in golden_test.cpp.
#include "models/families/family.h"
#include "tests/family_golden.h"
#include "tests/gguf_writer.h"

namespace skald::test {
namespace {

// The configuration of a GGUF that `add` completes.
template <class Add>
ModelConfig glm4_gguf(Add add) {
  GgufWriter w;
  w.text("general.architecture", "glm4");
  w.u32("glm4.block_count", 1);
  w.u32("glm4.embedding_length", 16);
  w.u32("glm4.feed_forward_length", 8);
  w.u32("glm4.attention.head_count", 2);
  w.u32("glm4.rope.dimension_count", 4);
  w.f32("glm4.attention.layer_norm_rms_epsilon", 1e-5f);
  add(w);
  w.tensors.push_back({"token_embd.weight", {16, 4}, 0, std::string(16 * 4 * 4, '\0')});
  TempFolder temp;
  const auto file = open_gguf(temp.write("m.gguf", w.file()));
  return family_for_gguf("glm4", "m.gguf").from_gguf(*file);
}

void sections(GgufWriter& w, const std::vector<int32_t>& sizes) {
  std::string bytes;
  for (const int32_t size : sizes) bytes += raw(size);
  w.array("glm4.rope.dimension_sections", 5, sizes.size(), bytes);
}

}  // namespace

TEST_CASE("GLM-4 rotates neighbours in half of each head") {
  if (find_golden("glm4").empty()) return;
  const ModelConfig c = golden_config(
      "glm4",
      {{"partial_rotary_factor", "erase"}, {"attention_bias", "erase"}, {"rms_norm_eps", "erase"}});
  CHECK(c.rope.interleaved);
  CHECK(c.head_dim == 32);
  CHECK(c.rope.inv_freq.size() == 8);
  CHECK(c.attention_bias);
  CHECK(!c.attention_output_bias);
  CHECK(c.norm_eps == 1.5625e-7f);
}

TEST_CASE("a GGUF of GLM-4 with sections of the rope has heads in halves") {
  CHECK(glm4_gguf([](GgufWriter&) {}).rope.interleaved);
  CHECK(glm4_gguf([](GgufWriter& w) { sections(w, {0, 0, 0, 0}); }).rope.interleaved);
  CHECK(!glm4_gguf([](GgufWriter& w) { sections(w, {1, 1, 0, 0}); }).rope.interleaved);
  CHECK(glm4_gguf([](GgufWriter&) {}).rope.inv_freq.size() == 2);
  CHECK(has(
      error_text([] { glm4_gguf([](GgufWriter& w) { w.u32("glm4.nextn_predict_layers", 1); }); }),
      "'glm4.nextn_predict_layers' is 1"));
}

}  // namespace skald::test
