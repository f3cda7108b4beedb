// DeviceSampler picks what Sampler picks: the same token, and log-probabilities to the last bit.
#include "cuda/run/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/cuda.h"
#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "tests/catch.h"
#include "tests/engine/sampling/changed_parameters.h"

namespace skald::cuda {
namespace {

constexpr float kInf = INFINITY;
constexpr int64_t kMostRows = 130;

// Random numbers from a seed, so that a failing case can be repeated.
class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  double from(double low, double high) { return low + (high - low) * uniform(seed_, 0, next_++); }
  int whole(int low, int high) { return static_cast<int>(std::floor(from(low, high + 1))); }
  bool chance(double p) { return from(0, 1) < p; }

 private:
  uint64_t seed_;
  int64_t next_ = 0;
};

enum class Kind { Spread, NearlyFlat, Flat, Ties, Masked, MostlyMasked, Peaked, Huge };
constexpr int kKinds = 8;

void fill(std::span<float> logits, Kind kind, Dice& dice) {
  const double spread = kind == Kind::NearlyFlat ? 1e-3 : kind == Kind::Huge ? 1e37 : 3;
  const double middle = dice.from(-10, 10);
  for (float& x : logits) {
    const double radius = std::sqrt(-2 * std::log(1 - dice.from(0, 1)));
    x = static_cast<float>(middle + spread * radius * std::cos(6.283185307 * dice.from(0, 1)));
    if (kind == Kind::Flat) x = -0.0f;
    if (kind == Kind::Ties) x = std::round(x);
    if (kind == Kind::Masked && dice.chance(0.3)) x = -kInf;
    if (kind == Kind::MostlyMasked && dice.chance(0.99)) x = -kInf;
  }
  if (kind == Kind::Peaked) logits[logits.size() / 3] += 30;
  if (kind == Kind::Masked || kind == Kind::MostlyMasked) logits.back() = 1;
}

SamplingParams random_params(int vocab, Dice& dice) {
  SamplingParams params;
  params.seed = static_cast<uint64_t>(dice.whole(0, 1000));
  if (dice.chance(0.2)) return params;
  params.temperature = dice.chance(0.15)  ? 0
                       : dice.chance(0.2) ? 1
                                          : static_cast<float>(dice.from(0.05, 3));
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  if (dice.chance(0.4)) params.top_k = dice.whole(1, std::min(vocab, 100));
  if (dice.chance(0.1)) params.top_k = dice.whole(1, vocab + 5);
  if (dice.chance(0.5)) params.top_p = static_cast<float>(dice.from(0.01, 1));
  if (dice.chance(0.4)) params.min_p = static_cast<float>(std::exp(dice.from(-12, 0)));
  if (dice.chance(0.3)) params.repeat_penalty = static_cast<float>(dice.from(0.5, 2));
  if (dice.chance(0.2)) params.presence_penalty = static_cast<float>(dice.from(-2, 2));
  if (dice.chance(0.2)) params.frequency_penalty = static_cast<float>(dice.from(-1, 1));
  params.repeat_last_n = dice.whole(0, 100);
  for (int i = dice.chance(0.2) ? dice.whole(1, 20) : 0; i > 0; --i) {
    const int id = dice.whole(0, vocab - 1);
    const bool ban = dice.chance(0.1) && id < vocab - 1;  // one token always remains
    params.logit_bias.emplace_back(id, ban ? -kInf : static_cast<float>(dice.from(-5, 5)));
  }
  if (dice.chance(0.1)) params.logit_bias = {{vocab - 1, kInf}};
  if (dice.chance(0.3)) params.top_logprobs = dice.whole(1, std::min(vocab, kMostTopTokens));
  if (dice.chance(0.02)) params.typical_p = 0.9f;
  return params;
}

// Rows of logits in memory that the device reads too, each with its settings and history.
struct Batch {
  int64_t vocab, count;
  PinnedMemory memory;
  std::vector<SamplingParams> params;
  std::vector<std::vector<int32_t>> histories;
  std::vector<std::vector<uint64_t>> masks;  // what a grammar allows; empty: all tokens
  std::vector<PickRequest> requests;

  Batch(int64_t vocab, int64_t rows)
      : vocab(vocab),
        count(rows),
        memory(vocab * rows * 4, "a test"),
        params(rows),
        histories(rows),
        masks(rows) {}

  std::span<float> row(int64_t i) const {
    return {memory.as<float>() + i * vocab, static_cast<size_t>(vocab)};
  }
  void make_requests(uint64_t request) {
    requests.clear();
    for (int64_t i = 0; i < count; ++i) {
      requests.push_back({&params[i], {request, 1000 + i, histories[i], masks[i]}});
    }
  }
};

// Allows half of the tokens or few. The last token is always allowed.
std::vector<uint64_t> random_mask(int vocab, Dice& dice) {
  const bool few = dice.chance(0.5);
  std::vector<uint64_t> mask(static_cast<size_t>(mask_words(vocab)));
  for (uint64_t& word : mask) {
    const auto bits = [&] { return static_cast<uint64_t>(dice.from(0, 1) * 0x1p53) * 2654435761u; };
    word = few && dice.chance(0.98) ? 0 : bits() | (dice.chance(0.3) ? bits() << 32 : 0);
  }
  mask.back() |= uint64_t{1} << ((vocab - 1) % 64);
  if (dice.chance(0.2)) mask.push_back(~uint64_t{0});  // bits beyond the vocabulary
  return mask;
}

Batch random_batch(int vocab, int64_t rows, uint64_t seed) {
  Dice dice(seed);
  Batch batch(vocab, rows);
  for (int64_t i = 0; i < rows; ++i) {
    fill(batch.row(i), static_cast<Kind>((i + static_cast<int64_t>(seed)) % kKinds), dice);
    batch.params[i] = random_params(vocab, dice);
    for (int n = dice.whole(0, 150); n > 0; --n) {
      batch.histories[i].push_back(dice.whole(-1, vocab));  // some ids have no logit
    }
    if (dice.chance(0.3)) batch.masks[i] = random_mask(vocab, dice);
  }
  batch.make_requests(seed);
  return batch;
}

SampleGpu usual() { return sample_gpu(list_devices().devices.front().compute_capability); }

// Descriptions of GPUs that make a row be spread in each of the possible ways.
std::vector<SampleGpu> each_way() {
  std::vector<SampleGpu> ways = {usual(), {1, 1, 0}, {1, 1, usual().most_shared_bytes}};
  for (int blocks = 2; blocks <= usual().most_blocks; blocks *= 2) {
    ways.push_back({blocks, 1 << 20, usual().most_shared_bytes});
  }
  return ways;
}

std::vector<Picked> pick_on_device(const Batch& batch, const SampleGpu& gpu) {
  DeviceSampler sampler(batch.vocab, kMostRows, gpu);
  std::vector<Picked> picked;
  sampler.pick(
      batch.memory.as<float>(), batch.requests, [&](int64_t row) { return batch.row(row); },
      nullptr, picked);
  return picked;
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool same(const Picked& a, const Picked& b) {
  const auto same_top = [](const auto& x, const auto& y) {
    return x.first == y.first && same_bits(x.second, y.second);
  };
  return a.token == b.token && same_bits(a.logprob, b.logprob) &&
         std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(), same_top);
}

void check_batch(const Batch& batch, const SampleGpu& gpu) {
  const std::vector<float> before(batch.memory.as<float>(),
                                  batch.memory.as<float>() + batch.vocab * batch.count);
  const std::vector<Picked> picked = pick_on_device(batch, gpu);
  REQUIRE(picked.size() == batch.requests.size());
  Sampler sampler;
  for (int64_t i = 0; i < batch.count; ++i) {
    const SamplingParams& p = batch.params[i];
    const Picked& expected = sampler.pick(batch.row(i), p, batch.requests[i].context);
    if (same(picked[i], expected)) continue;
    CAPTURE(batch.vocab, batch.count, gpu.most_blocks, gpu.multiprocessors, i, p.temperature,
            p.top_k);
    CAPTURE(p.top_p, p.min_p, p.typical_p, p.repeat_penalty, p.top_logprobs, p.logit_bias.size());
    CHECK(picked[i].token == expected.token);
    CHECK(picked[i].logprob == expected.logprob);
    CHECK(picked[i].top == expected.top);
    FAIL("the device picked otherwise");
  }
  // The kernel may change adjusted logits for a while, but must restore them.
  CHECK(std::memcmp(before.data(), batch.memory.as<float>(), before.size() * 4) == 0);
}

void check_random(int vocab, int batches, int most_rows) {
  for (int seed = 0; seed < batches; ++seed) {
    Dice dice(static_cast<uint64_t>(1000 + seed));
    const Batch batch = random_batch(vocab, dice.whole(1, most_rows), static_cast<uint64_t>(seed));
    for (const SampleGpu& gpu : each_way()) check_batch(batch, gpu);
  }
}

std::string error_of(const Batch& batch, const SampleGpu& gpu) {
  try {
    pick_on_device(batch, gpu);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::Failed);
    return error.what();
  }
  return "no error";
}

std::string cpu_error_of(const Batch& batch) {
  Sampler sampler;
  try {
    for (int64_t i = 0; i < batch.count; ++i) {
      sampler.pick(batch.row(i), batch.params[i], batch.requests[i].context);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("the device picks what the CPU picks: vocabularies of a few tokens") {
  check_random(1, 20, 130);
  check_random(31, 20, 130);
}

TEST_CASE("the device picks what the CPU picks: 1000 tokens") { check_random(1000, 40, 130); }

TEST_CASE("the device picks what the CPU picks: 32000 tokens") { check_random(32000, 12, 40); }

TEST_CASE("the device picks what the CPU picks: large vocabularies", "[slow]") {
  check_random(128256, 6, 24);
  check_random(151936, 4, 24);
  check_random(262145, 2, 16);
}

TEST_CASE("the device picks what the CPU picks: 130 rows of 128256 tokens") {
  const Batch batch = random_batch(128256, 130, 77);
  check_batch(batch, usual());
}

// These rows have a kernel of their own on GPUs with clusters: up to 262144 tokens, in two sizes.
TEST_CASE("the device picks what the CPU picks: rows that are all greedy") {
  const auto [vocab, rows] = GENERATE(table<int, int64_t>({{1, 3},
                                                           {31, 130},
                                                           {1000, 130},
                                                           {32000, 40},
                                                           {128256, 9},
                                                           {131072, 1},
                                                           {131075, 2},
                                                           {151936, 5},
                                                           {262144, 2},
                                                           {262145, 2}}));
  for (uint64_t seed = 0; seed < kKinds; ++seed) {
    Batch batch(vocab, rows);
    Dice dice(seed);
    for (int64_t i = 0; i < rows; ++i) {
      fill(batch.row(i), static_cast<Kind>((static_cast<uint64_t>(i) + seed) % kKinds), dice);
      batch.params[i].temperature = 0;
      batch.params[i].top_k = i % 2 ? 40 : 0;  // changes nothing
    }
    batch.make_requests(seed);
    CHECK(DeviceSampler(vocab, kMostRows, usual()).all_greedy(batch.requests) ==
          (usual().most_blocks > 1 && vocab <= 262144));
    for (const SampleGpu& gpu : {usual(), SampleGpu{1, 1, usual().most_shared_bytes}}) {
      check_batch(batch, gpu);
    }
  }
}

TEST_CASE("a row that wants more than its best token is not taken for greedy") {
  const auto greedy = [](auto change) {
    Batch batch(1000, 2);
    batch.params[0].temperature = batch.params[1].temperature = 0;
    batch.histories[1] = {7};
    change(batch);
    batch.make_requests(1);
    return DeviceSampler(1000, 4, usual()).all_greedy(batch.requests);
  };
  CHECK(greedy([](Batch&) {}) == (usual().most_blocks > 1));
  CHECK_FALSE(greedy([](Batch& b) { b.params[1].temperature = 1e-3f; }));
  CHECK_FALSE(greedy([](Batch& b) { b.params[1].repeat_penalty = 1.1f; }));
  CHECK_FALSE(greedy([](Batch& b) { b.params[1].presence_penalty = 1; }));
  CHECK_FALSE(greedy([](Batch& b) { b.params[1].top_logprobs = 1; }));
  CHECK_FALSE(greedy([](Batch& b) { b.params[1].logit_bias = {{3, 1.0f}}; }));
  CHECK_FALSE(greedy([](Batch& b) { b.params[1].logit_bias = {{3, kInf}}; }));
  CHECK_FALSE(greedy([](Batch& b) { b.params[1].typical_p = 0.5f; }));
  CHECK_FALSE(greedy([](Batch& b) { b.masks[1] = {7}; }));
}

TEST_CASE("the device follows every cut through nearly flat and tied rows") {
  for (const Kind kind : {Kind::NearlyFlat, Kind::Flat, Kind::Ties, Kind::Masked}) {
    Batch batch(40001, 12);
    Dice dice(static_cast<uint64_t>(kind));
    for (int64_t i = 0; i < batch.count; ++i) {
      fill(batch.row(i), kind, dice);
      SamplingParams& params = batch.params[i];
      params.temperature = static_cast<float>(dice.from(0.5, 2));
      params.top_k = i % 3 == 0 ? 0 : i % 3 == 1 ? dice.whole(1, 4096) : dice.whole(4097, 40000);
      params.top_p = i % 2 == 0 ? 1 : static_cast<float>(dice.from(0.1, 1));
      params.min_p = i % 4 < 2 ? 0 : 1e-3f;
      params.top_logprobs = static_cast<int>(i);
    }
    batch.make_requests(3);
    for (const SampleGpu& gpu : each_way()) check_batch(batch, gpu);
  }
}

TEST_CASE("the device reports logits that nothing can be picked from as the CPU does") {
  const bool greedy = GENERATE(false, true);
  for (const SampleGpu& gpu : each_way()) {
    Batch batch(1000, 3);
    for (int64_t i = 0; i < batch.count; ++i) {
      std::fill_n(batch.row(i).data(), 1000, 1.0f);
      if (greedy) batch.params[i].temperature = 0;
    }
    batch.make_requests(1);
    CHECK(error_of(batch, gpu) == "no error");
    SECTION("NaN and infinite") {
      batch.row(1)[998] = NAN;
      batch.row(1)[700] = kInf;
      batch.row(1)[3] = -kInf;
      std::fill_n(batch.row(2).data(), 1000, -kInf);
      CHECK(error_of(batch, gpu).find("2 of 1000 are NaN or +inf, the first for token 700;") !=
            std::string::npos);
    }
    SECTION("negative NaN") { batch.row(2)[0] = -NAN; }
    SECTION("all NaN") { std::fill_n(batch.row(0).data(), 1000, NAN); }
    SECTION("all masked") {
      std::fill_n(batch.row(1).data(), 1000, -kInf);
      CHECK(error_of(batch, gpu) == "no token to pick: all 1000 logits are -inf");
    }
    SECTION("all that is allowed masked") {
      batch.row(1)[70] = batch.row(1)[3] = -kInf;
      batch.masks[1] = {uint64_t{1} << 3, uint64_t{1} << 6};  // and no word for the other tokens
      batch.make_requests(1);
      CHECK(error_of(batch, gpu) ==
            "no token to pick: all that the grammar allows here have logits of -inf");
    }
    SECTION("the rest banned") {
      for (int id = 0; id < 1000; ++id) {
        if (id == 5 || id == 900) {
          batch.params[2].logit_bias.emplace_back(id, -kInf);
        } else {
          batch.row(2)[id] = -kInf;
        }
      }
      CHECK(error_of(batch, gpu) ==
            "no token to pick: the logit bias bans all that the model allows");
    }
    CHECK(error_of(batch, gpu) == cpu_error_of(batch));
  }
}

TEST_CASE("adjustments that overflow stay finite on the device") {
  for (const SampleGpu& gpu : each_way()) {
    Batch batch(4, 3);
    for (int64_t i = 0; i < 3; ++i) {
      const float logits[] = {3e38f, -3e38f, 1, -kInf};
      std::copy_n(logits, 4, batch.row(i).data());
      SamplingParams& params = batch.params[i];
      params.logit_bias = {{0, 3e38f}, {1, -3e38f}, {0, 3e38f}, {3, 3e38f}, {0, -1.0f}};
      params.repeat_penalty = i == 0 ? 1e-38f : 1e38f;
      params.frequency_penalty = i == 1 ? 3e38f : -3e38f;
      params.presence_penalty = i == 1 ? -3e38f : 1;
      params.temperature = i == 2 ? 1e-45f : 1;
      params.top_logprobs = 4;
      batch.histories[i] = {0, 1, 1, 3, 2};
    }
    batch.make_requests(4);
    check_batch(batch, gpu);
  }
}

TEST_CASE("settings that the device leaves to the CPU") {
  const auto on_device = [](auto change) {
    SamplingParams params;
    change(params);
    return samples_on_device(params);
  };
  CHECK(on_device([](SamplingParams&) {}));
  CHECK(on_device([](SamplingParams& p) { p.top_k = 0, p.top_p = 1, p.min_p = 0; }));
  CHECK(on_device([](SamplingParams& p) { p.repeat_last_n = 1024, p.repeat_penalty = 2; }));
  CHECK(on_device([](SamplingParams& p) { p.repeat_last_n = -1; }));
  CHECK_FALSE(on_device([](SamplingParams& p) { p.repeat_last_n = -1, p.repeat_penalty = 2; }));
  CHECK_FALSE(on_device([](SamplingParams& p) { p.repeat_last_n = 1025, p.repeat_penalty = 2; }));
  CHECK_FALSE(on_device([](SamplingParams& p) { p.typical_p = 0.5f; }));
  CHECK_FALSE(on_device([](SamplingParams& p) { p.top_logprobs = 21; }));
  CHECK_FALSE(on_device([](SamplingParams& p) { p.logit_bias = {{0, kInf}, {1, 0}}; }));
  CHECK(on_device([](SamplingParams& p) { p.logit_bias = {{0, kInf}}, p.typical_p = 0.5f; }));
  CHECK_FALSE(on_device([](SamplingParams& p) { p.logit_bias.assign(1025, {0, 1.0f}); }));

  // Rows with and without such settings in one call.
  Batch batch = random_batch(1000, 40, 5);
  for (auto& mask : batch.masks) mask.clear();  // a mask might forbid the forced token
  batch.make_requests(5);
  for (int64_t i = 0; i < batch.count; i += 3) {
    batch.params[i].typical_p = 0.7f;
    batch.params[i + 1 < batch.count ? i + 1 : i].logit_bias = {{7, kInf}};
    batch.row(i + 1 < batch.count ? i + 1 : i)[7] = 0;
  }
  check_batch(batch, usual());
}

TEST_CASE("the device applies every sampling parameter, or leaves the row to the host") {
  constexpr int kVocab = 300;
  SamplingParams base;
  base.repeat_penalty = 1.5f;  // else repeat_last_n has no effect
  for (const SamplingParameter& parameter : sampling_parameters()) {
    for (const SamplingParams& params : test::changed_parameters(parameter, base)) {
      CAPTURE(parameter.field);
      Batch batch(kVocab, 8);
      Dice dice(23);
      for (int64_t i = 0; i < batch.count; ++i) {
        fill(batch.row(i), Kind::NearlyFlat, dice);
        batch.params[i] = params;
        batch.histories[i] = {1, 2, 3, 2};
      }
      batch.make_requests(10);
      check_batch(batch, usual());
    }
  }
}

// Short, for tools that slow kernels down a thousand times.
TEST_CASE("single small rows are picked on the device") {
  Batch batch(200, 1);
  Dice dice(22);
  fill(batch.row(0), Kind::Spread, dice);
  SECTION("by the defaults") {}
  SECTION("from all, with penalties") {
    batch.params[0].top_k = 0, batch.params[0].top_p = 1, batch.params[0].min_p = 0;
    batch.params[0].repeat_penalty = 1.2f;
    batch.histories[0] = {1, 2, 3, 2};
  }
  SECTION("by top-p") { batch.params[0].top_k = 0; }
  SECTION("greedy") { batch.params[0].temperature = 0; }
  batch.make_requests(9);
  check_batch(batch, usual());
}

TEST_CASE("the device picks from rows of every sort") {
  for (const SampleGpu& gpu : each_way()) {
    Batch batch(3000, 6);
    Dice dice(21);
    for (int64_t i = 0; i < batch.count; ++i) {
      fill(batch.row(i), i == 5 ? Kind::Flat : Kind::Spread, dice);
      SamplingParams& params = batch.params[i];
      if (i == 0) params.temperature = 0;
      if (i >= 2) params.top_k = 0, params.min_p = 0, params.top_p = i == 2 ? 0.9f : 1;
      if (i == 3) params.repeat_penalty = 1.2f, params.top_logprobs = 3;
      if (i == 4) params.top_k = 5000, params.top_p = 0.99f;
      batch.histories[i] = {1, 2, 3, 2};
    }
    batch.make_requests(8);
    check_batch(batch, gpu);
  }
}

TEST_CASE("the device applies a full list of adjustments") {
  for (const SampleGpu& gpu : each_way()) {
    Batch batch(5000, 4);
    Dice dice(9);
    for (int64_t i = 0; i < batch.count; ++i) {
      fill(batch.row(i), Kind::Spread, dice);
      SamplingParams& params = batch.params[i];
      params.repeat_last_n = 824;
      params.repeat_penalty = 1.3f;
      params.frequency_penalty = 0.1f;
      for (int n = 0; n < 200; ++n) {
        const auto bias = static_cast<float>(dice.from(-3, 3));
        params.logit_bias.emplace_back(dice.whole(0, i % 2 ? 4999 : 50), bias);
      }
      for (int n = 0; n < 2000; ++n) batch.histories[i].push_back(dice.whole(0, 4999));
    }
    batch.make_requests(6);
    check_batch(batch, gpu);
  }
}

}  // namespace skald::cuda
