#include "engine/cpu/executor.h"

#include <cstring>
#include <memory>

#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;
using Row = std::vector<float>;

RunOptions options(int threads, bool exact, int sequences = 1) {
  RunOptions result;
  result.threads = threads;
  result.exact = exact;
  result.sequences = sequences;
  result.rows = 256;
  return result;
}

Row last_logits(Executor& executor, int64_t row = 0) {
  const auto logits = executor.logits(row);
  return {logits.begin(), logits.end()};
}

// Computes `tokens` in chunks. Returns the logits of the last token.
Row feed(Executor& executor, Sequence& sequence, std::span<const int32_t> tokens,
         size_t chunk = 256) {
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min(chunk, tokens.size()));
    tokens = tokens.subspan(part.size());
    const SeqRows step{&sequence, part, tokens.empty() ? Want::LastRow : Want::Nothing};
    executor.run({&step, 1});
  }
  return last_logits(executor);
}

Row fresh_logits(Executor& executor, const Tokens& tokens) {
  Sequence sequence = executor.new_sequence();
  return feed(executor, sequence, tokens);
}

bool same_bits(const Row& a, const Row& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Case {
  DType type;
  bool exact;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (DType type :
       {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_K, DType::Q6_K}) {
    for (bool exact : {false, true}) all.push_back({type, exact});
  }
  return all;
}

// With more threads than cores, every op waits for the operating system's scheduler. Only tests
// about threads use many threads, and for few steps.
TEST_CASE("logits have the same bits with any number of threads and any chunks of the prompt") {
  const Tokens prompt = random_tokens(150, 1);
  for (const auto& [type, exact] : cases()) {
    CAPTURE(name(type), exact);
    const Model model = random_llama({.type = type});
    const auto one = cpu::make_executor(model, options(1, exact));
    const Row expected = fresh_logits(*one, prompt);
    CHECK(std::isfinite(expected[0]));
    for (int threads : {2, 8}) {
      const auto executor = cpu::make_executor(model, options(threads, exact));
      CHECK(same_bits(fresh_logits(*executor, prompt), expected));
    }
    const auto executor = cpu::make_executor(model, options(1, exact));
    for (size_t chunk : {1, 3, 7, 64}) {
      CAPTURE(chunk);
      Sequence sequence = executor->new_sequence();
      CHECK(same_bits(feed(*executor, sequence, prompt, chunk), expected));
    }
  }
}

TEST_CASE("a sequence's logits do not depend on the sequences in the same step") {
  for (const auto& [type, exact] : cases()) {
    CAPTURE(name(type), exact);
    const Model model = random_llama({.type = type, .layers = 1});
    const auto executor = cpu::make_executor(model, options(1, exact, 33));
    for (int count : {2, 7, 32}) {
      CAPTURE(count);
      std::vector<Tokens> texts;
      std::vector<Row> expected;
      std::vector<Sequence> sequences;
      for (int s = 0; s < count; ++s) {
        texts.push_back(random_tokens(1 + s * 5 % 13, static_cast<uint64_t>(s)));
        expected.push_back(fresh_logits(*executor, texts.back()));
        sequences.push_back(executor->new_sequence());
      }
      std::vector<SeqRows> step;
      for (size_t s = 0; s < texts.size(); ++s) {
        step.push_back({&sequences[s], texts[s], Want::LastRow});
      }
      CHECK(executor->run(step) == count);
      for (int s = 0; s < count; ++s) {
        CHECK(same_bits(last_logits(*executor, s), expected[static_cast<size_t>(s)]));
      }
    }
  }
}

TEST_CASE("logits stand in the order of the step's parts") {
  const auto executor = cpu::make_executor(random_llama({}), options(2, true, 3));
  const Tokens a = random_tokens(20, 1), b = random_tokens(5, 2), c = random_tokens(3, 3);
  std::vector<Row> expected;
  for (size_t i = 1; i <= a.size(); ++i) {
    expected.push_back(fresh_logits(*executor, Tokens(a.begin(), a.begin() + int64_t(i))));
  }
  expected.push_back(fresh_logits(*executor, c));
  Sequence sa = executor->new_sequence(), sb = executor->new_sequence(),
           sc = executor->new_sequence();
  const SeqRows step[] = {
      {&sa, a, Want::EveryRow}, {&sb, b, Want::Nothing}, {&sc, c, Want::LastRow}};
  REQUIRE(executor->run(step) == 21);
  for (int64_t row : {20, 0, 7, 19, 20, 3}) {  // in any order, and repeatedly
    CAPTURE(row);
    CHECK(same_bits(last_logits(*executor, row), expected[static_cast<size_t>(row)]));
  }
}

TEST_CASE("a fork and its original continue independently, each as if computed from the start") {
  for (const bool exact : {false, true}) {
    const auto executor =
        cpu::make_executor(random_llama({.type = DType::Q8_0}), options(1, exact, 4));
    for (const int64_t shared : {1, 63, 64, 65, 100}) {
      CAPTURE(shared, exact);
      const Tokens prefix = random_tokens(shared, 1);
      Sequence a = executor->new_sequence();
      feed(*executor, a, prefix);
      Sequence b = a.fork();
      const int64_t free_pages = executor->pages().free_pages();
      Tokens text_a = prefix, text_b = prefix;
      // The two take turns, so that a write into a shared page would change the other.
      for (int i = 0; i < 4; ++i) {
        const Tokens more_a = random_tokens(9, 10 + uint64_t(i)),
                     more_b = random_tokens(7, 20 + uint64_t(i));
        text_a.insert(text_a.end(), more_a.begin(), more_a.end());
        text_b.insert(text_b.end(), more_b.begin(), more_b.end());
        const SeqRows step[] = {{&b, more_b, Want::LastRow}, {&a, more_a, Want::LastRow}};
        executor->run(step);
        const Row logits_b = last_logits(*executor, 0), logits_a = last_logits(*executor, 1);
        CHECK(same_bits(logits_a, fresh_logits(*executor, text_a)));
        CHECK(same_bits(logits_b, fresh_logits(*executor, text_b)));
      }
      CHECK(executor->pages().free_pages() < free_pages);
    }
  }
}

TEST_CASE("a truncated sequence continues as if the removed tokens had never been") {
  const auto executor = cpu::make_executor(random_llama({.window = 40}), options(1, false, 2));
  const Tokens text = random_tokens(140, 1), other = random_tokens(30, 2);
  for (const int64_t keep : {0, 1, 64, 65, 127, 128}) {
    Sequence sequence = executor->new_sequence();
    feed(*executor, sequence, text);
    sequence.truncate(keep);
    Tokens expected(text.begin(), text.begin() + keep);
    expected.insert(expected.end(), other.begin(), other.end());
    CHECK(same_bits(feed(*executor, sequence, other), fresh_logits(*executor, expected)));
  }
}

TEST_CASE("an error leaves every sequence of the step unchanged") {
  RunOptions small = options(1, true, 1);
  small.context = 100;  // two pages
  const auto executor = cpu::make_executor(random_llama({}), small);
  const Tokens text = random_tokens(60, 1);
  Sequence a = executor->new_sequence(), b = executor->new_sequence();
  feed(*executor, a, text);
  const Tokens good = random_tokens(4, 2), bad{5, 300}, negative{-1};
  const Tokens many = random_tokens(41, 3), pages = random_tokens(70, 4);
  const struct {
    const Tokens& tokens;
    Exit code;
    const char* says;
  } cases[] = {
      {bad, Exit::Failed, "token id 300 is outside of the model's vocabulary of 300"},
      {negative, Exit::Failed, "token id -1 is outside"},
      {pages, Exit::Memory, "the KV cache is full"},
  };
  for (const auto& [tokens, code, says] : cases) {
    const SeqRows step[] = {{&a, good, Want::LastRow}, {&b, tokens, Want::LastRow}};
    const std::string message = error_text([&] { executor->run(step); }, code);
    CAPTURE(message);
    CHECK(has(message, says));
    CHECK(a.length() == 60);
    CHECK(b.length() == 0);
    CHECK(executor->pages().free_pages() == 1);
  }
  const SeqRows over{&a, many, Want::LastRow};
  CHECK(has(error_text(
                [&] {
                  executor->run({&over, 1});
                },
                Exit::Failed),
            "the text is 101 tokens long, but the context holds 100"));

  Tokens all = text;
  all.insert(all.end(), good.begin(), good.end());
  const Row after = feed(*executor, a, good);
  a.truncate(0);
  CHECK(same_bits(after, fresh_logits(*executor, all)));
}

TEST_CASE("executors in one process do not disturb each other") {
  const Model first = random_llama({.type = DType::Q4_0, .seed = 1});
  const Model second = random_llama({.type = DType::F16, .seed = 2, .layers = 3});
  const Tokens text = random_tokens(10, 1);
  const auto alone = [&](const Model& model) {
    return fresh_logits(*cpu::make_executor(model, options(2, false)), text);
  };
  const Row expected[] = {alone(first), alone(second)};
  const auto a = cpu::make_executor(first, options(2, false));
  const auto b = cpu::make_executor(second, options(1, false));
  const auto c = cpu::make_executor(first, options(1, false));
  Sequence sequences[] = {a->new_sequence(), b->new_sequence(), c->new_sequence()};
  Row last[3];
  for (const int32_t& token : text) {
    Executor* executors[] = {a.get(), b.get(), c.get()};
    for (int i = 0; i < 3; ++i) last[i] = feed(*executors[i], sequences[i], {&token, 1});
  }
  CHECK(same_bits(last[0], expected[0]));
  CHECK(same_bits(last[1], expected[1]));
  CHECK(same_bits(last[2], expected[0]));
}

TEST_CASE("an executor keeps its weights alive and reports its sizes") {
  std::unique_ptr<Executor> executor;
  {
    const Model model = random_llama({});
    executor = cpu::make_executor(model, options(1, false));
  }
  CHECK(std::isfinite(fresh_logits(*executor, {1, 2, 3})[0]));
  CHECK(executor->context() == 512);
  CHECK(executor->max_rows() == 256);
  // Layers * (keys, values) * heads * head_dim * bytes of f16.
  CHECK(executor->cache_bytes_per_token() == 2 * 2 * 2 * 64 * 2);
  CHECK(executor->bytes_allocated() > 512 * executor->cache_bytes_per_token());
  const auto exact = cpu::make_executor(random_llama({}), options(1, true));
  CHECK(exact->cache_bytes_per_token() == 2 * executor->cache_bytes_per_token());
}

TEST_CASE("the cache's type is independent of the activations' type") {
  const Model model = random_llama({});
  RunOptions run = options(1, true);
  const auto exact = cpu::make_executor(model, run);
  run.cache_types = {CacheType::F16, CacheType::F16};
  const auto half = cpu::make_executor(model, run);
  CHECK(exact->cache_types() == cache_types_of(DType::F32));
  CHECK(half->cache_types() == cache_types_of(DType::F16));
  CHECK(2 * half->cache_bytes_per_token() == exact->cache_bytes_per_token());
  CHECK(2 * half->page_bytes() == exact->page_bytes());
  CHECK(half->page_format() != exact->page_format());
  // The default has pages of the same type, which other activations have written.
  CHECK(half->page_format() != cpu::make_executor(model, options(1, false))->page_format());
  const int64_t pages = cache_pages(half->context(), 1, 0);
  CHECK(half->plan().needed() == exact->plan().needed() - pages * half->page_bytes());

  // The activations stay float32: keys and values of 11 bits move logits a little, and only where
  // a token attends to others.
  const Row expected = fresh_logits(*exact, {1, 2, 3, 4}), got = fresh_logits(*half, {1, 2, 3, 4});
  double difference = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(double{got[i]} - expected[i], 2);
    size += std::pow(double{expected[i]}, 2);
  }
  CHECK(difference > 0);
  CHECK(std::sqrt(difference / size) < 1e-3);

  run = options(1, false);
  run.cache_types = {CacheType::F32, CacheType::F32};
  CHECK(cpu::make_executor(model, run)->page_bytes() == exact->page_bytes());
}

TEST_CASE("hidden rows are the wanted rows after the last norm, as the head multiplies them") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const Model model = random_llama({});
  const auto executor = cpu::make_executor(model, options(1, true, 2), kernels);
  const size_t last_norm = executor->program().ops.size() - 2;
  Row normed;
  executor->observe([&](const OpOutput& o) {
    if (o.op == last_norm) normed.assign(o.values.begin(), o.values.end());
  });
  Sequence first = executor->new_sequence(), second = executor->new_sequence();
  const Tokens a = {4, 5, 6}, b = {7, 8};
  const SeqRows step[] = {{&first, a, Want::LastRow}, {&second, b, Want::EveryRow}};
  REQUIRE(executor->run(step) == 3);
  const TensorView head = model.weights->find("output.weight")->view;
  const size_t dim = static_cast<size_t>(model.config.dim);
  for (int64_t row = 0; row < 3; ++row) {
    const auto hidden = executor->hidden(row);
    REQUIRE(hidden.size() == dim);
    CHECK(std::equal(hidden.begin(), hidden.end(), normed.begin() + (row + 2) * model.config.dim));
    const Row kept(hidden.begin(), hidden.end());
    const auto logits = executor->logits(row);
    for (int64_t token : {0, 17, 299}) {
      const auto* weight = reinterpret_cast<const float*>(head.row(token));
      double sum = 0;
      for (size_t i = 0; i < dim; ++i) sum += double{kept[i]} * weight[i];
      CHECK(logits[static_cast<size_t>(token)] == Approx(sum).margin(1e-5));
    }
  }
}

}  // namespace
}  // namespace skald::test
