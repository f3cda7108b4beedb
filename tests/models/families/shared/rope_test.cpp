#include "models/families/shared/rope.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "models/files/gguf.h"
#include "models/files/hf_config.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/gguf_writer.h"
#include "tests/golden.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

constexpr int kHeadDim = 8;

RopeConfig read(const std::string& text, const HfRopeDefaults& defaults = {},
                int head_dim = kHeadDim) {
  TempFolder folder;
  return read_hf_rope(HfConfig::read(folder.write("config.json", text)), head_dim, defaults);
}

// Reads rope from a GGUF of the architecture "a" that has no other keys.
RopeConfig read(const GgufWriter& writer, int head_dim = kHeadDim) {
  TempFolder folder;
  GgufWriter w = writer;
  w.text("general.architecture", "a");
  if (w.tensors.empty()) w.tensors.push_back({"x", {1}, 0, raw(1.0f)});
  return read_gguf_rope(*open_gguf(folder.write("model.gguf", w.file())), head_dim);
}

GgufWriter::Tensor floats(const std::string& name, const std::vector<float>& values) {
  std::string data;
  for (float value : values) data += raw(value);
  return {name, {values.size()}, 0, data};
}

// The defaults that this family's reader uses.
HfRopeDefaults defaults_of(const std::string& model_type) {
  HfRopeDefaults defaults;
  if (model_type == "phi3") {
    defaults.original_context = 4096;
    defaults.partial = defaults.yarn_is_longrope = true;
  }
  return defaults;
}

TEST_CASE("frequencies and scale agree with transformers' bit for bit") {
  const nlohmann::json file = read_json(data_dir() / "rope" / "cases.json");
  for (const nlohmann::json& c : file["cases"]) {
    const nlohmann::json& config = c["config"];
    CAPTURE(c["name"].get<std::string>(), c["tokens"].get<int>());
    const int head_dim = config.contains("head_dim") ? config["head_dim"].get<int>()
                                                     : config["hidden_size"].get<int>() /
                                                           config["num_attention_heads"].get<int>();
    const RopeConfig rope = read(config.dump(), defaults_of(config["model_type"]), head_dim);
    const RopeSpec spec = rope.spec();
    const auto expected = c["inv_freq"].get<std::vector<float>>();
    const auto frequencies =
        spec.by_context ? spec.by_context(c["tokens"].get<int64_t>()) : spec.inv_freq;
    REQUIRE(frequencies.size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i, frequencies[i], expected[i]);
      CHECK(std::bit_cast<uint32_t>(frequencies[i]) == std::bit_cast<uint32_t>(expected[i]));
    }
    CHECK(spec.scale == c["scale"].get<float>());
  }
  CHECK(file["cases"].size() > 30);
}

TEST_CASE("frequencies fall from 1 by powers of the base") {
  const auto f = rope_frequencies(10000, 8, {});
  REQUIRE(f.size() == 4);
  for (int i = 0; i < 4; ++i) {
    CHECK(f[static_cast<size_t>(i)] == Approx(std::pow(10000.0, -i / 4.0)).epsilon(1e-6));
  }
  RopeScaling linear;
  linear.type = "linear";
  linear.factor = 4;
  CHECK(rope_frequencies(10000, 8, linear)[1] == f[1] / 4);
}

TEST_CASE("llama3's scaling keeps short waves, stretches long waves and blends between") {
  const RopeScaling scaling{"llama3", 8, 1, 4, 8192};
  const auto plain = rope_frequencies(500000, 128, {});
  const auto scaled = rope_frequencies(500000, 128, scaling);
  int kept = 0, stretched = 0, blended = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const double wave = 2 * M_PI / double{plain[i]};
    if (wave < 8192 / 4.0) {
      CHECK(scaled[i] == plain[i]);
      ++kept;
    } else if (wave > 8192) {
      CHECK(scaled[i] == plain[i] / 8);
      ++stretched;
    } else {
      const double smooth = (8192 / wave - 1) / 3;
      CHECK(scaled[i] == Approx((1 - smooth) * plain[i] / 8 + smooth * plain[i]).epsilon(1e-5));
      ++blended;
    }
  }
  CHECK((kept > 20 && stretched > 20 && blended > 2));
}

TEST_CASE("rope_scaling and the newer rope_parameters are read alike") {
  CHECK(read("{}").base == 10000);
  CHECK(read(R"({"rope_theta": 5e5})").base == 5e5);
  CHECK(read(R"({"rope_theta": 1, "rope_parameters": {"rope_theta": 5e5}})").base == 5e5);
  for (const char* text : {
           R"({"rope_scaling": {"type": "linear", "factor": 2}})",
           R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0}})",
           R"({"rope_parameters": {"rope_type": "linear", "factor": 2}})",
       }) {
    CHECK(read(text).scaling.type == "linear");
    CHECK(read(text).scaling.factor == 2);
  }
  CHECK(read(R"({"rope_scaling": null})").scaling.type == "none");
  CHECK(read(R"({"rope_parameters": {"rope_type": "default"}})").scaling.type == "none");
}

TEST_CASE("unknown or wrong values that would change the result are errors") {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {R"({"rope_theta": 0})", "'rope_theta' is 0, expected more than 0"},
      {R"({"rope_theta": -1})", "'rope_theta' is -1"},
      {R"({"rope_scaling": {"type": "ntk", "factor": 2}})", "rope type 'ntk' is not supported"},
      {R"({"rope_scaling": {"type": "su", "factor": 2}})", "rope type 'su' is not supported"},
      {R"({"rope_scaling": {"type": "linear", "factor": 2, "mrope_section": [1, 1, 2]}})",
       "rope_scaling: 'mrope_section' is not known"},
      {R"({"rope_parameters": {"full_attention": {"rope_type": "default"}}})",
       "rope_parameters: 'full_attention' is not known"},
      {R"({"rope_scaling": {"type": "dynamic"}})", "'factor' is missing"},
      {R"({"rope_scaling": {"type": "yarn"}})", "'factor' is missing"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 2, "beta_fast": -1}})", "'beta_fast' is -1"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 2, "beta_fast": 0.5}})",
       "'beta_fast' is 0.5, expected at least 'beta_slow', 1"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 2, "attention_factor": 0}})",
       "'attention_factor' is 0"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 2, "truncate": 1}})",
       "expected true or false"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 2,
           "original_max_position_embeddings": 1e300}})",
       "'original_max_position_embeddings' is 1e+300, expected a whole number"},
      {R"({"rope_scaling": {"type": "longrope", "long_factor": [1, 1, 1, 1]}})",
       "'short_factor' is missing"},
      {R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1],
           "long_factor": [1, 1, 1, 1]}})",
       "'short_factor' has 3 values, expected 4"},
      {R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1, 1],
           "long_factor": [1, 0, 1, 1]}})",
       "'long_factor' holds 0, expected more than 0"},
      {R"({"rope_scaling": {"type": "longrope", "short_factor": "1",
           "long_factor": [1, 1, 1, 1]}})",
       "expected a list of numbers"},
      {R"({"partial_rotary_factor": 0.5})",
       "'partial_rotary_factor' is 0.5; this architecture rotates whole heads"},
      {R"({"rope_scaling": {"type": "linear"}})", "rope_scaling: 'factor' is missing"},
      {R"({"rope_scaling": {"type": "linear", "factor": 0}})", "'factor' is 0"},
      {R"({"rope_scaling": {"type": 5}})", "'type' is 5"},
      {R"({"rope_scaling": []})", "'rope_scaling' is missing or not an object"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8}})", "'low_freq_factor'"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
           "high_freq_factor": 1, "original_max_position_embeddings": 8192}})",
       "'high_freq_factor' is 1, expected more than 'low_freq_factor', 4"},
  };
  for (const auto& [text, says] : cases) {
    CAPTURE(text);
    const std::string message = error_text([&] { read(text); });
    CAPTURE(message);
    CHECK(has(message, says));
  }
  HfRopeDefaults partial;
  partial.partial = true;
  for (const char* text :
       {R"({"partial_rotary_factor": 0})", R"({"partial_rotary_factor": 1.5})",
        R"({"partial_rotary_factor": 0.4})", R"({"partial_rotary_factor": -1})"}) {
    CAPTURE(text);
    CHECK(has(error_text([&] { read(text, partial); }), "expected a share of the head dimension"));
  }
}

TEST_CASE("a scaled model's context follows from the scaling") {
  const auto stretched = [](const char* text) { return read(text).stretched(512); };
  CHECK(stretched(R"({"max_position_embeddings": 512})") == 512);
  CHECK(stretched(R"({"max_position_embeddings": 512,
                      "rope_scaling": {"type": "linear", "factor": 2}})") == 512);
  CHECK(stretched(R"({"max_position_embeddings": 512,
                      "rope_scaling": {"type": "dynamic", "factor": 2}})") == 1024);
  CHECK(stretched(R"({"max_position_embeddings": 512,
                      "rope_scaling": {"type": "yarn", "factor": 4}})") == 2048);
  CHECK(stretched(R"({"max_position_embeddings": 512, "rope_scaling": {"type": "yarn", "factor": 4,
                      "original_max_position_embeddings": 128}})") == 512);
  CHECK(stretched(R"({"max_position_embeddings": 512,
                      "rope_scaling": {"type": "yarn", "factor": 1e300}})") == int64_t{1} << 31);
}

TEST_CASE("only longrope and dynamic depend on the context") {
  const auto short_context = [](const char* text) { return read(text).short_context(); };
  CHECK(short_context(R"({"rope_scaling": {"type": "yarn", "factor": 4}})") == 0);
  CHECK(!read(R"({"rope_scaling": {"type": "yarn", "factor": 4}})").spec().by_context);
  CHECK(short_context(R"({"max_position_embeddings": 512,
                          "rope_scaling": {"type": "dynamic", "factor": 4}})") == 512);
  const RopeConfig longrope = read(R"({"max_position_embeddings": 512, "rope_scaling": {
      "type": "longrope", "original_max_position_embeddings": 64,
      "short_factor": [1, 1, 1, 1], "long_factor": [2, 2, 2, 2]}})");
  CHECK(longrope.short_context() == 64);
  const RopeSpec spec = longrope.spec();
  CHECK(spec.by_context(64) == spec.inv_freq);
  CHECK(spec.by_context(65)[0] == spec.inv_freq[0] / 2);
}

TEST_CASE("a GGUF's rope keys are read like those of a configuration") {
  GgufWriter plain;
  CHECK(read(plain).scaling.type == "none");
  CHECK(read(plain).base == 10000);
  CHECK(read(plain).dims == kHeadDim);

  GgufWriter w;
  w.f32("a.rope.freq_base", 5e5);
  w.u32("a.rope.dimension_count", 4);
  w.f32("a.rope.scale_linear", 2);
  RopeConfig rope = read(w);
  CHECK((rope.base == 5e5 && rope.dims == 4));
  CHECK((rope.scaling.type == "linear" && rope.scaling.factor == 2));

  GgufWriter yarn;
  yarn.text("a.rope.scaling.type", "yarn");
  yarn.f32("a.rope.scaling.factor", 4);
  yarn.u32("a.context_length", 512);
  yarn.u32("a.rope.scaling.original_context_length", 128);
  yarn.f32("a.rope.scaling.yarn_beta_fast", 16);
  yarn.f32("a.rope.scaling.yarn_beta_slow", 2);
  rope = read(yarn);
  const RopeConfig hf = read(R"({"max_position_embeddings": 512, "rope_scaling": {"type": "yarn",
      "factor": 4, "original_max_position_embeddings": 128, "beta_fast": 16, "beta_slow": 2}})");
  CHECK(rope.spec().inv_freq == hf.spec().inv_freq);
  CHECK(rope.spec().scale == hf.spec().scale);
  CHECK(rope.scaling.attention_factor > 1.1);
  GgufWriter given = yarn;
  given.f32("a.rope.scaling.yarn_attn_factor", 0.75f);
  CHECK(read(given).scaling.attention_factor == 0.75);
  GgufWriter times = yarn;
  times.f32("a.rope.scaling.attn_factor", 0.5f);
  CHECK(read(times).scaling.attention_factor == Approx(rope.scaling.attention_factor / 2));
  GgufWriter all = yarn;
  all.f32("a.rope.scaling.yarn_log_multiplier", 1);
  CHECK(read(all).scaling.attention_factor == Approx(1));

  GgufWriter longrope;
  longrope.u32("a.context_length", 512);
  longrope.u32("a.rope.scaling.original_context_length", 64);
  longrope.tensors = {floats("rope_factors_long.weight", {2, 2, 2, 2}),
                      floats("rope_factors_short.weight", {1, 1, 1, 1})};
  rope = read(longrope);
  CHECK(rope.scaling.type == "longrope");
  CHECK(rope.short_context() == 64);
  CHECK(rope.scaling.attention_factor == Approx(std::sqrt(1 + std::log(8) / std::log(64))));
  longrope.f32("a.rope.scaling.attn_factor", 1.25f);
  CHECK(read(longrope).scaling.attention_factor == 1.25);

  GgufWriter llama3;
  llama3.tensors = {floats("rope_freqs.weight", {1, 1, 2, 8})};
  rope = read(llama3);
  CHECK(rope.scaling.type == "llama3");
  CHECK(rope.spec().inv_freq[3] == read(plain).spec().inv_freq[3] / 8);
}

TEST_CASE("with scaling proportional the first pairs turn as in a whole head, the others not") {
  HfRopeDefaults defaults;
  defaults.proportional = true;
  const auto with_share = [&](const char* share) {
    return read(R"({"rope_parameters": {"rope_type": "proportional", "rope_theta": 10000.0,
        "partial_rotary_factor": )" +
                    std::string(share) + "}}",
                defaults);
  };
  const std::vector<float> whole = read("{}").spec().inv_freq;
  CHECK(with_share("0.5").spec().inv_freq == std::vector<float>{whole[0], whole[1], 0, 0});
  CHECK(with_share("0.7").spec().inv_freq == std::vector<float>{whole[0], whole[1], 0, 0});
  CHECK(with_share("1").spec().inv_freq == whole);
  CHECK(has(error_text([&] { with_share("0"); }), "'partial_rotary_factor' is 0, expected more"));
  const char* other = R"({"rope_parameters": {"rope_type": "proportional"}})";
  CHECK(has(error_text([&] { read(other); }), "rope type 'proportional' is not supported"));

  GgufWriter w;
  w.tensors = {floats("rope_freqs.weight", {1, 1, 1e30f, 1e30f})};
  const RopeConfig rope = read(w);
  CHECK(rope.scaling.type == "proportional");
  CHECK(rope.spec().inv_freq == with_share("0.5").spec().inv_freq);
}

TEST_CASE("a GGUF with wrong rope scaling is an error") {
  const auto says = [](const auto& change) {
    GgufWriter w;
    change(w);
    return error_text([&] { read(w); });
  };
  const auto type = [](GgufWriter& w, const char* name) { w.text("a.rope.scaling.type", name); };
  CHECK(has(says([&](GgufWriter& w) { type(w, "ntk"); }), "rope scaling 'ntk' is not supported"));
  CHECK(has(says([&](GgufWriter& w) { type(w, "longrope"); }), "needs the tensors"));
  CHECK(has(says([](GgufWriter& w) { w.f32("a.rope.scaling.factor", -1); }),
            "rope scaling factor is -1"));
  CHECK(has(says([](GgufWriter& w) { w.f32("a.rope.freq_base", 0); }), "freq_base' is 0"));
  CHECK(has(says([](GgufWriter& w) { w.u32("a.rope.dimension_count", 3); }), "is 3, expected"));
  CHECK(has(says([](GgufWriter& w) { w.u32("a.rope.dimension_count", 0); }), "is 0, expected"));
  CHECK(has(says([](GgufWriter& w) { w.u32("a.rope.dimension_count", 10); }),
            "is 10, expected an even number up to the head dimension, 8"));
  CHECK(has(says([&](GgufWriter& w) {
              type(w, "yarn");
              w.f32("a.rope.scaling.yarn_ext_factor", 0.5f);
            }),
            "yarn_ext_factor' is not 1"));
  CHECK(has(says([&](GgufWriter& w) {
              type(w, "yarn");
              w.f32("a.rope.scaling.attn_factor", 0);
            }),
            "attn_factor' is 0"));
  CHECK(has(says([](GgufWriter& w) {
              w.tensors = {floats("rope_factors_long.weight", {1, 1, 1, 1})};
            }),
            "tensor 'rope_factors_short.weight' is missing"));
  CHECK(has(says([](GgufWriter& w) {
              w.tensors = {floats("rope_factors_long.weight", {1, 1, 1, 1}),
                           floats("rope_factors_short.weight", {1, 1, 1})};
            }),
            "has 3 values, expected 4"));
  CHECK(has(says([](GgufWriter& w) {
              w.tensors = {floats("rope_freqs.weight", {1, 1, 1, -1})};
            }),
            "holds -1, expected more than 0"));
}

}  // namespace
}  // namespace skald::test
