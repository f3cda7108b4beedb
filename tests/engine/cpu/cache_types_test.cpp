// Caches of every type: attention of both kernel sets, and whole models.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/cpu/executor.h"
#include "engine/cpu/kernels.h"
#include "engine/memory/cache_layout.h"
#include "engine/memory/kv_pages.h"
#include "engine/quant/cache_row.h"
#include "tests/catch.h"
#include "tests/engine/cpu/random_weights.h"
#include "tests/engine/cpu/targets.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

using cpu::AttentionRow;
using cpu::Kernels;

constexpr int64_t kTypedTokens = 150;  // three pages

constexpr CacheTypes kTypePairs[] = {
    {CacheType::F32, CacheType::F32},   {CacheType::F16, CacheType::F16},
    {CacheType::BF16, CacheType::BF16}, {CacheType::Q8_0, CacheType::Q8_0},
    {CacheType::FP8, CacheType::FP8},   {CacheType::Q4_0, CacheType::Q4_0},
    {CacheType::Q8_0, CacheType::Q4_0}, {CacheType::Q4_0, CacheType::F16},
    {CacheType::F32, CacheType::FP8}};

AttentionSpec heads_of(int heads, int kv_heads, int head_dim, int window = 0, float softcap = 0) {
  return {heads, kv_heads, head_dim, 1 / std::sqrt(static_cast<float>(head_dim)), window, softcap};
}

// A layer with random queries, keys and values, and a cache of scattered pages.
class TypedLayer {
 public:
  TypedLayer(const AttentionSpec& spec, const CacheTypes& types) : spec_(spec), types_(types) {
    page_bytes_ = LayerCache(types, spec.kv_heads, spec.head_dim).bytes();
    cache.resize(static_cast<size_t>(7 * page_bytes_), std::byte{0xff});
    q_ = random_floats(kTypedTokens * spec.heads * spec.head_dim, 1);
    k_ = random_floats(kTypedTokens * spec.kv_heads * spec.head_dim, 2);
    v_ = random_floats(kTypedTokens * spec.kv_heads * spec.head_dim, 3);
    for (float& q : q_) q *= 2;  // makes the probabilities far from uniform
  }

  std::vector<float> attend(Kernels& kernels, const std::vector<int64_t>& parts) {
    std::vector<float> out(q_.size(), -12345.5f);
    const int64_t kv = int64_t{spec_.kv_heads} * spec_.head_dim;
    const int64_t q = int64_t{spec_.heads} * spec_.head_dim;
    int64_t from = 0;
    for (size_t i = 0; from < kTypedTokens; ++i) {
      const int64_t count = std::min(parts[i % parts.size()], kTypedTokens - from);
      std::vector<AttentionRow> rows;
      for (int64_t t = from; t < from + count; ++t) rows.push_back({pages_, t});
      kernels.attention({&q_[from * q],
                         &k_[from * kv],
                         &v_[from * kv],
                         &out[from * q],
                         rows.data(),
                         count,
                         {cache.data(), page_bytes_, types_},
                         spec_});
      from += count;
    }
    return out;
  }

  std::vector<std::byte> cache;

 private:
  AttentionSpec spec_;
  CacheTypes types_;
  int64_t page_bytes_;
  std::vector<int32_t> pages_ = {6, 1, 4};
  std::vector<float> q_, k_, v_;
};

double error_of(std::span<const float> got, std::span<const float> expected) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(double{got[i]} - expected[i], 2);
    size += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(difference / size);
}

TEST_CASE("the fast kernels read and write caches of every type as the reference does") {
  const AttentionSpec specs[] = {heads_of(4, 1, 64), heads_of(2, 2, 96, 70),
                                 heads_of(6, 2, 32, 0, 3)};
  const auto reference = cpu::reference_kernels({});
  for (const AttentionSpec& spec : specs) {
    for (const CacheTypes& types : kTypePairs) {
      TypedLayer layer(spec, types);
      const std::vector<float> expected = layer.attend(*reference, {kTypedTokens});
      for_each_target([&] {
        CAPTURE(to_text(types), spec.head_dim);
        TypedLayer own(spec, types);
        const auto kernels = cpu::fast_kernels({false, 2, kTypedTokens, 1});
        const std::vector<float> out = own.attend(*kernels, {kTypedTokens});
        CHECK(own.cache == layer.cache);
        CHECK(error_of(out, expected) < 1e-5);
        TypedLayer parts(spec, types);
        const auto one = cpu::fast_kernels({false, 1, kTypedTokens, 1});
        CHECK(parts.attend(*one, {1, 2, 7, 40}) == out);
        CHECK(parts.cache == own.cache);
      });
    }
  }
}

TEST_CASE("types without blocks take heads of any dimension") {
  const AttentionSpec spec = heads_of(2, 2, 33);
  const auto reference = cpu::reference_kernels({});
  for (const CacheType type : {CacheType::BF16, CacheType::FP8}) {
    TypedLayer layer(spec, {type, type});
    const std::vector<float> expected = layer.attend(*reference, {kTypedTokens});
    for_each_target([&] {
      CAPTURE(name(type));
      TypedLayer own(spec, {type, type});
      const auto kernels = cpu::fast_kernels({false, 2, kTypedTokens, 1});
      CHECK(error_of(own.attend(*kernels, {kTypedTokens}), expected) < 1e-5);
      CHECK(own.cache == layer.cache);
    });
  }
}

// The largest change of attention's output by a type of keys and of values, as measured, plus a
// fifth.
TEST_CASE("a type of the cache changes attention as much as its bits do") {
  const AttentionSpec spec = heads_of(4, 2, 64);
  const auto reference = cpu::reference_kernels({});
  const std::vector<float> exact =
      TypedLayer(spec, {CacheType::F32, CacheType::F32}).attend(*reference, {kTypedTokens});
  const struct {
    CacheType type;
    double keys, values;
  } bounds[] = {{CacheType::F16, 1e-3, 5e-4},
                {CacheType::BF16, 8e-3, 3e-3},
                {CacheType::Q8_0, 2e-2, 8e-3},
                {CacheType::FP8, 9e-2, 3.5e-2},
                {CacheType::Q4_0, 0.3, 0.11}};
  for (const auto& [type, keys, values] : bounds) {
    CAPTURE(name(type));
    const auto error = [&](const CacheTypes& types) {
      return error_of(TypedLayer(spec, types).attend(*reference, {kTypedTokens}), exact);
    };
    CHECK(error({type, CacheType::F32}) < keys);
    CHECK(error({type, CacheType::F32}) > keys / 10);
    CHECK(error({CacheType::F32, type}) < values);
    CHECK(error({CacheType::F32, type}) > values / 10);
  }
}

TEST_CASE("numbers that are not finite come through every type of cache") {
  const AttentionSpec spec = heads_of(1, 1, 32);
  for (const CacheTypes& types : kTypePairs) {
    for (const bool in_keys : {true, false}) {
      CAPTURE(to_text(types), in_keys);
      std::vector<float> q(32, 1.0f), k(32, 1.0f), v(32, 1.0f), out(32);
      (in_keys ? k : v)[5] = std::nanf("");
      std::vector<std::byte> cache(static_cast<size_t>(LayerCache(types, 1, 32).bytes()));
      const int32_t page = 0;
      const AttentionRow row{{&page, 1}, 0};
      for (const auto& kernels : {cpu::fast_kernels({}), cpu::reference_kernels({})}) {
        kernels->attention(
            {q.data(), k.data(), v.data(), out.data(), &row, 1, {cache.data(), 0, types}, spec});
        CHECK(std::any_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }));
      }
    }
  }
}

std::unique_ptr<Executor> executor_with(const Model& model, const CacheTypes& types,
                                        cpu::KernelSet set, int sequences = 1) {
  RunOptions run;
  run.threads = 2;
  run.rows = 256;
  run.context = 256;
  run.sequences = sequences;
  run.cache_types = {types.keys, types.values};
  return cpu::make_executor(model, run, set);
}

std::vector<float> feed_in_chunks(Executor& executor, Sequence& sequence,
                                  std::span<const int32_t> tokens, size_t chunk) {
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min(chunk, tokens.size()));
    tokens = tokens.subspan(part.size());
    const SeqRows step{&sequence, part, tokens.empty() ? Want::LastRow : Want::Nothing};
    executor.run({&step, 1});
  }
  const auto logits = executor.logits(0);
  return {logits.begin(), logits.end()};
}

TEST_CASE("models have caches of every type: near f16, in chunks as in one go, beside others") {
  const Model model = random_llama({.head_dim = 32, .dim = 64, .ffn_dim = 64});
  const std::vector<int32_t> prompt = random_tokens(100, 1), other = random_tokens(70, 2);
  for (const auto set : {cpu::KernelSet::Fast, cpu::KernelSet::Reference}) {
    std::vector<float> usual;
    {
      const auto executor = executor_with(model, {CacheType::F16, CacheType::F16}, set);
      Sequence sequence = executor->new_sequence();
      usual = feed_in_chunks(*executor, sequence, prompt, 256);
    }
    for (const CacheTypes& types : kTypePairs) {
      CAPTURE(to_text(types), set == cpu::KernelSet::Fast);
      const auto executor = executor_with(model, types, set, 2);
      CHECK(executor->cache_types() == types);
      CHECK(executor->cache_bytes_per_token() ==
            2 * LayerCache(types, 2, 32).bytes() / kPageTokens);
      CHECK(executor->plan().cache_types == types);
      Sequence sequence = executor->new_sequence();
      const std::vector<float> logits = feed_in_chunks(*executor, sequence, prompt, 256);
      const bool four_bits = types.keys == CacheType::Q4_0 || types.values == CacheType::Q4_0;
      const bool fp8 = types.values == CacheType::FP8;
      CHECK(error_of(logits, usual) < (four_bits ? 0.15 : fp8 ? 0.06 : 0.01));
      CHECK((error_of(logits, usual) > 0) == (types != cache_types_of(DType::F16)));
      sequence.truncate(0);
      CHECK(feed_in_chunks(*executor, sequence, prompt, 7) == logits);
      sequence.truncate(0);
      // Beside a sequence at other positions.
      Sequence beside = executor->new_sequence();
      feed_in_chunks(*executor, beside, other, 256);
      feed_in_chunks(*executor, sequence, std::span(prompt).first(99), 50);
      const SeqRows step[] = {{&beside, std::span(other).first(3), Want::LastRow},
                              {&sequence, std::span(prompt).last(1), Want::LastRow}};
      executor->run(step);
      const auto row = executor->logits(1);
      CHECK(std::vector<float>(row.begin(), row.end()) == logits);
    }
  }
}

TEST_CASE("each pair of types has a page format of its own, and the default's has not changed") {
  const Model model = random_llama({.layers = 1});
  std::vector<std::string> formats;
  for (const CacheTypes& types : kTypePairs) {
    const auto executor = executor_with(model, types, cpu::KernelSet::Reference);
    formats.push_back(executor->page_format());
  }
  CHECK(formats[0] == "cpu reference f32, not exact");
  CHECK(formats[1] == "cpu reference f16");
  std::sort(formats.begin(), formats.end());
  CHECK(std::unique(formats.begin(), formats.end()) == formats.end());
}

}  // namespace
}  // namespace skald::test
