#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engine/base/half.h"
#include "engine/cpu/kernels.h"
#include "engine/memory/kv_pages.h"
#include "engine/quant/cache_row.h"
#include "tests/catch.h"
#include "tests/engine/cpu/random_weights.h"
#include "tests/engine/cpu/targets.h"

using namespace skald;
using namespace skald::cpu;
using skald::test::for_each_target;
using skald::test::random_floats;

namespace {

// A layer's queries, keys and values, and a cache of scattered pages that holds NaN at first.
class Layer {
 public:
  Layer(AttentionSpec spec, bool f16, int64_t tokens) : spec_(spec), f16_(f16), tokens_(tokens) {
    const int64_t pages = pages_for(tokens);
    page_bytes_ = 2 * spec.kv_heads * kPageTokens * spec.head_dim * (f16 ? 2 : 4);
    cache_.resize(static_cast<size_t>((2 * pages + 1) * page_bytes_), std::byte{0xff});  // NaN
    for (int64_t p = 0; p < pages; ++p) pages_.push_back(static_cast<int32_t>(2 * (pages - p)));
    q_ = random_floats(tokens * spec.heads * spec.head_dim, 1);
    k_ = random_floats(tokens * spec.kv_heads * spec.head_dim, 2);
    v_ = random_floats(tokens * spec.kv_heads * spec.head_dim, 3);
    for (float& q : q_) q *= 2;  // makes the probabilities far from uniform
  }

  // Computes tokens from `from` to `from + count - 1` in one call.
  std::vector<float> attend(Kernels& kernels, int64_t from, int64_t count) {
    std::vector<AttentionRow> rows;
    for (int64_t t = from; t < from + count; ++t) rows.push_back({pages_, t});
    std::vector<float> out(static_cast<size_t>(count * q_cols()), -12345.5f);
    kernels.attention(
        {q_.data() + from * q_cols(), k_.data() + from * kv_cols(), v_.data() + from * kv_cols(),
         out.data(), rows.data(), count,
         KvCacheView{cache_.data(), page_bytes_, cache_types_of(f16_ ? DType::F16 : DType::F32)},
         spec_});
    return out;
  }

  void poison_before(int64_t token) {
    const int64_t row = spec_.head_dim * (f16_ ? 2 : 4);
    for (int64_t t = 0; t < token; ++t) {
      for (int64_t h = 0; h < 2 * spec_.kv_heads; ++h) {
        std::byte* page =
            cache_.data() + pages_[static_cast<size_t>(t / kPageTokens)] * page_bytes_;
        std::memset(page + (h * kPageTokens + t % kPageTokens) * row, 0xff,
                    static_cast<size_t>(row));
      }
    }
  }

  std::vector<double> expected() const {
    std::vector<double> out;
    for (int64_t t = 0; t < tokens_; ++t) {
      const int64_t first = spec_.window ? std::max<int64_t>(0, t - spec_.window + 1) : 0;
      for (int64_t h = 0; h < spec_.heads; ++h) {
        const int64_t kv = h / (spec_.heads / spec_.kv_heads) * spec_.head_dim;
        std::vector<double> p;
        for (int64_t s = first; s <= t; ++s) {
          double dot = 0;
          for (int64_t i = 0; i < spec_.head_dim; ++i) {
            dot += double{q_[t * q_cols() + h * spec_.head_dim + i]} *
                   rounded(k_[s * kv_cols() + kv + i]);
          }
          const double steps = static_cast<double>(t / spec_.growth.length);
          p.push_back(dot * spec_.scale * (1 + spec_.growth.rate * std::log(1 + steps)));
          if (spec_.softcap != 0) {
            p.back() = spec_.softcap * std::tanh(p.back() / spec_.softcap);
          }
        }
        const double best = *std::max_element(p.begin(), p.end());
        for (double& x : p) x = std::exp(x - best);
        const double total = std::accumulate(p.begin(), p.end(), 0.0);
        for (int64_t i = 0; i < spec_.head_dim; ++i) {
          double sum = 0;
          for (int64_t s = first; s <= t; ++s)
            sum += p[s - first] * rounded(v_[s * kv_cols() + kv + i]);
          out.push_back(sum / total);
        }
      }
    }
    return out;
  }

  int64_t q_cols() const { return int64_t{spec_.heads} * spec_.head_dim; }
  int64_t tokens() const { return tokens_; }
  std::byte* cache() { return cache_.data(); }

 private:
  int64_t kv_cols() const { return int64_t{spec_.kv_heads} * spec_.head_dim; }
  double rounded(float x) const { return f16_ ? f16_to_f32(f32_to_f16(x)) : x; }

  AttentionSpec spec_;
  bool f16_;
  int64_t tokens_, page_bytes_;
  std::vector<std::byte> cache_;
  std::vector<int32_t> pages_;
  std::vector<float> q_, k_, v_;
};

AttentionSpec spec_of(int heads, int kv_heads, int head_dim, int window, float softcap = 0) {
  return {heads, kv_heads, head_dim, 1 / std::sqrt(static_cast<float>(head_dim)), window, softcap};
}

AttentionSpec growing(AttentionSpec spec) {
  spec.growth = {0.5f, 20};
  return spec;
}

const AttentionSpec kSpecs[] = {spec_of(4, 1, 64, 0),
                                spec_of(6, 2, 100, 0),
                                spec_of(3, 3, 128, 70),
                                spec_of(7, 1, 256, 0),
                                spec_of(4, 2, 512, 0, 0),
                                spec_of(10, 2, 8, 5),
                                spec_of(2, 2, 33, 1),
                                spec_of(4, 2, 48, 0, 3),
                                spec_of(3, 1, 256, 70, 50),
                                growing(spec_of(4, 2, 32, 0)),
                                growing(spec_of(4, 2, 16, 30, 5))};
constexpr int64_t kTokens = 150;  // spans three pages

std::vector<float> in_parts(Layer& layer, Kernels& kernels, const std::vector<int64_t>& parts) {
  std::vector<float> out;
  int64_t from = 0;
  for (size_t i = 0; from < layer.tokens(); ++i) {
    const int64_t count = std::min(parts[i % parts.size()], layer.tokens() - from);
    const std::vector<float> some = layer.attend(kernels, from, count);
    out.insert(out.end(), some.begin(), some.end());
    from += count;
  }
  return out;
}

}  // namespace

TEST_CASE("fast attention agrees with double precision and reads only written parts of the cache") {
  for_each_target([] {
    for (const AttentionSpec& spec : kSpecs) {
      for (bool f16 : {false, true}) {
        Layer layer(spec, f16, kTokens);  // unwritten parts are NaN
        const auto kernels = fast_kernels({false, 2, kTokens, 1});
        const std::vector<float> out = layer.attend(*kernels, 0, kTokens);
        const std::vector<double> expected = layer.expected();
        double worst = 0;
        for (size_t i = 0; i < out.size(); ++i) {
          const double d = std::abs(out[i] - expected[i]);
          worst = d <= worst ? worst : d;  // keeps NaN
        }
        INFO("head_dim " << spec.head_dim << " window " << spec.window << " f16 " << f16);
        CHECK(worst < 1e-5);
      }
    }
  });
}

TEST_CASE("fast attention has the same bits with any chunks and any number of threads") {
  for_each_target([] {
    for (const AttentionSpec& spec : kSpecs) {
      for (bool f16 : {false, true}) {
        Layer whole(spec, f16, kTokens);
        const auto kernels = fast_kernels({false, 1, kTokens, 1});
        const std::vector<float> expected = whole.attend(*kernels, 0, kTokens);
        for (const std::vector<int64_t>& parts :
             {std::vector<int64_t>{1}, std::vector<int64_t>{2, 7, 32}, std::vector<int64_t>{64}}) {
          for (int threads : {1, 8}) {
            Layer layer(spec, f16, kTokens);
            const auto more = fast_kernels({false, threads, kTokens, 1});
            INFO("head_dim " << spec.head_dim << " f16 " << f16 << " parts of " << parts[0] << ", "
                             << threads << " threads");
            CHECK(in_parts(layer, *more, parts) == expected);
          }
        }
      }
    }
  });
}

TEST_CASE("fast attention does not read positions before the window") {
  for_each_target([] {
    for (int window : {1, 5, 64, 70}) {
      const AttentionSpec spec = spec_of(4, 2, 64, window);
      const auto kernels = fast_kernels({false, 2, kTokens, 1});
      Layer whole(spec, true, kTokens), layer(spec, true, kTokens);
      const std::vector<float> expected = whole.attend(*kernels, 0, kTokens);
      constexpr int64_t kFirst = 120;
      layer.attend(*kernels, 0, kFirst);
      for (int64_t from = kFirst; from < kTokens; from += 6) {
        layer.poison_before(from - window + 1);
        const std::vector<float> out = layer.attend(*kernels, from, 6);
        INFO("window " << window << " from " << from);
        CHECK(std::memcmp(out.data(), &expected[static_cast<size_t>(from * layer.q_cols())],
                          out.size() * sizeof(float)) == 0);
      }
    }
  });
}

TEST_CASE("rows of several sequences in one call do not affect each other") {
  for_each_target([] {
    const AttentionSpec spec = spec_of(4, 2, 64, 0);
    const auto kernels = fast_kernels({false, 2, 100, 1});
    // Two sequences on pages of one cache; the second has 70 tokens more.
    constexpr int64_t kAhead = 70, kRows = 20, kQ = 256, kKv = 128;
    const std::vector<float> q = random_floats(100 * kQ, 1), k = random_floats(100 * kKv, 2),
                             v = random_floats(100 * kKv, 3);
    const std::vector<int32_t> first = {0, 3}, second = {2, 1};
    const int64_t page_bytes = 2 * kKv * kPageTokens * 2;
    const auto run = [&](bool together) {
      std::vector<std::byte> cache(static_cast<size_t>(4 * page_bytes), std::byte{0xff});
      std::vector<AttentionRow> rows;
      for (int64_t t = 0; t < kAhead; ++t) rows.push_back({second, t});
      std::vector<float> out(100 * kQ);
      const auto call = [&](int64_t from, int64_t count) {
        kernels->attention(
            {&q[from * kQ], &k[from * kKv], &v[from * kKv], &out[from * kQ], &rows[from], count,
             KvCacheView{cache.data(), page_bytes, cache_types_of(DType::F16)}, spec});
      };
      call(0, kAhead);
      for (int64_t t = 0; t < kRows; ++t) rows.push_back({first, t});
      for (int64_t t = kAhead; t < kAhead + 10; ++t) rows.push_back({second, t});
      if (together) {
        call(kAhead, kRows + 10);
      } else {
        call(kAhead, kRows);
        call(kAhead + kRows, 10);
      }
      return out;
    };
    CHECK(run(true) == run(false));
  });
}

TEST_CASE("keys and values round to f16 as in the reference") {
  for_each_target([] {
    const AttentionSpec spec = spec_of(1, 1, 100, 0);
    std::vector<float> k(100), v(100, 1.0f), q(100), out(100);
    std::mt19937 random(1);
    for (int repeat = 0; repeat < 200; ++repeat) {
      for (float& x : k) {  // any exponent of f16, and ties
        x = std::ldexp(
            static_cast<float>(random() % 8192) + 0.5f * static_cast<float>(random() % 2),
            static_cast<int>(random() % 44) - 40);
        x = std::min(x, 65504.0f);
      }
      std::vector<std::byte> cache(2 * kPageTokens * 100 * 2);
      const int32_t page = 0;
      const AttentionRow row{{&page, 1}, 3};
      fast_kernels({})->attention({q.data(), k.data(), v.data(), out.data(), &row, 1,
                                   KvCacheView{cache.data(), 0, cache_types_of(DType::F16)}, spec});
      for (size_t i = 0; i < k.size(); ++i) {
        uint16_t rounded;
        std::memcpy(&rounded, cache.data() + (3 * 100 + i) * 2, 2);
        if (rounded != f32_to_f16(k[i])) FAIL(k[i] << " became " << f16_to_f32(rounded));
      }
    }
  });
}
