// The golden models on the GPU, in the numbers of their own weights: 16-bit models by the
// divergence of their predictions, float32 ones by their logits; and the same texts as the CPU.
#include <algorithm>
#include <cmath>
#include <map>

#include "cuda/cuda.h"
#include "engine/cpu/executor.h"
#include "engine/session.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/cuda/switches.h"
#include "tests/golden.h"

namespace skald::test {
namespace {

std::vector<double> softmax(const float* logits, size_t count) {
  const double best = *std::max_element(logits, logits + count);
  std::vector<double> p(count);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += p[i] = std::exp(logits[i] - best);
  for (double& value : p) value /= sum;
  return p;
}

double divergence(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0) sum += p[i] * std::log(p[i] / q[i]);
  }
  return sum;
}

// Rows of logits by position, the text fed `chunk` tokens a step.
std::map<int64_t, std::vector<float>> run_text(Executor& executor, const std::vector<int32_t>& ids,
                                               size_t chunk) {
  std::map<int64_t, std::vector<float>> logits;
  Sequence sequence = executor.new_sequence();
  for (size_t at = 0; at < ids.size(); at += chunk) {
    const auto part = std::span(ids).subspan(at, std::min(chunk, ids.size() - at));
    const SeqRows rows{&sequence, part, Want::EveryRow};
    const int64_t wanted = executor.run({&rows, 1});
    for (int64_t row = 0; row < wanted; ++row) {
      const auto values = executor.logits(row);
      logits[static_cast<int64_t>(at) + row].assign(values.begin(), values.end());
    }
  }
  return logits;
}

std::vector<int32_t> continue_text(Executor& executor, const std::vector<int32_t>& prompt,
                                   size_t count) {
  Session session(executor, SamplingParams{.temperature = 0});
  session.feed(prompt);
  std::vector<int32_t> ids;
  while (ids.size() < count) ids.push_back(session.next().token);
  return ids;
}

}  // namespace

TEST_CASE("golden models on the GPU predict what Hugging Face predicts") {
  const std::string name = GENERATE("llama-mha", "llama3-gqa-tied-ropescale", "llama3-long-3000",
                                    "openllama-headdim100", "llama-bias-linear-rope",
                                    "llama-config-v5", "mistral-swa-headdim64", "qwen2-bias-tied");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  const OpenedModel opened = open_model(folder);
  const auto executor = cuda::make_executor(opened.model, {}, 0, switches());
  const nlohmann::json golden = read_json(folder / "golden.json");
  const Matrix expected = read_npy(folder / "logits.npy");
  const auto ids = golden["input_ids"].get<std::vector<int32_t>>();
  const auto rows = golden["logit_rows"].get<std::vector<int64_t>>();
  const bool exact = golden["weights_dtype"] == "fp32";
  // All at once, in pieces, and (short texts) one token after the other through the decode path.
  for (const size_t chunk : {size_t{512}, size_t{7}, size_t{1}}) {
    if (chunk < 512 && ids.size() > 500) continue;
    CAPTURE(name, chunk);
    const auto logits = run_text(*executor, ids, chunk);
    double largest = 0, kl = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<float>& row = logits.at(rows[i]);
      const float* reference = expected.row(static_cast<int64_t>(i));
      for (size_t c = 0; c < row.size(); ++c) {
        largest = std::max(largest, std::fabs(double{row[c]} - reference[c]));
      }
      kl += divergence(softmax(reference, row.size()), softmax(row.data(), row.size()));
    }
    kl /= static_cast<double>(rows.size());
    std::printf("%-28s chunk %3zu: largest difference of a logit %.2e, mean KL %.2e\n",
                name.c_str(), chunk, largest, kl);
    CHECK(kl <= 1e-3);
    if (exact) CHECK(largest <= 1e-3);
  }
  const auto greedy = golden["greedy_ids"].get<std::vector<int32_t>>();
  const auto margins = golden["greedy_margins"].get<std::vector<double>>();
  constexpr double kClearMargin = 0.05;  // 16-bit activations move logits by a few hundredths
  const size_t clear = static_cast<size_t>(
      std::find_if(margins.begin(), margins.end(), [](double m) { return m < kClearMargin; }) -
      margins.begin());
  const auto prompt = golden["greedy_prompt_ids"].get<std::vector<int32_t>>();
  CHECK(continue_text(*executor, prompt, clear) ==
        std::vector<int32_t>(greedy.begin(), greedy.begin() + static_cast<int64_t>(clear)));
}

// As the reference text of a GGUF's dequantized weights; with and without 16-bit copies.
TEST_CASE("a GGUF of every type predicts on the GPU what its dequantized weights do") {
  const std::string type = GENERATE("f16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k_m",
                                    "q4_k_m", "q5_k_m", "q6_k", "iq4_nl", "iq4_xs");
  const PrefillCopy copy = GENERATE(PrefillCopy::On, PrefillCopy::Off);
  const std::filesystem::path gguf = find_gguf("kq256." + type + ".gguf");
  if (gguf.empty()) return;
  const OpenedModel opened = open_model(gguf);
  const auto executor = cuda::make_executor(opened.model, {.prefill_copy = copy}, 0, switches());
  const std::string stem = (gguf.parent_path() / ("kq256." + type)).string();
  const Matrix expected = read_npy(stem + ".logits.npy");
  const auto ids = read_json(stem + ".json")["input_ids"].get<std::vector<int32_t>>();
  for (const size_t chunk : {size_t{512}, size_t{7}, size_t{1}}) {
    CAPTURE(type, chunk);
    const auto logits = run_text(*executor, ids, chunk);
    REQUIRE(std::ssize(logits) >= expected.rows);
    double kl = 0;
    for (int64_t row = 0; row < expected.rows; ++row) {
      const std::vector<float>& values = logits.at(row);
      kl += divergence(softmax(expected.row(row), values.size()),
                       softmax(values.data(), values.size()));
    }
    kl /= static_cast<double>(expected.rows);
    std::printf("kq256 %-8s copy %s chunk %3zu: mean KL %.2e\n", type.c_str(),
                copy == PrefillCopy::On ? "on " : "off", chunk, kl);
    CHECK(kl <= 1e-3);
  }
}

TEST_CASE("stories260K tells the same story on the GPU") {
  if (!have_shared("goldens/stories260K")) return;
  const std::filesystem::path folder = shared_dir() / "goldens/stories260K";
  const OpenedModel opened = open_model(folder);
  const auto executor = cuda::make_executor(opened.model, {}, 0, switches());
  const auto story =
      read_json(folder / "golden.json")["greedy_from_bos_ids"].get<std::vector<int32_t>>();
  CHECK(continue_text(*executor, {story.front()}, story.size() - 1) ==
        std::vector<int32_t>(story.begin() + 1, story.end()));
}

TEST_CASE("two models on one GPU do not disturb each other") {
  const OpenedModel first = open_model(find_golden("llama-mha"));
  const OpenedModel second = open_model(find_golden("mistral-swa-headdim64"));
  const auto a = cuda::make_executor(first.model, {}, 0, switches());
  const auto b = cuda::make_executor(second.model, {}, 0, switches());
  const auto expected_a = continue_text(*a, {1, 5, 9}, 16);
  const auto expected_b = continue_text(*b, {1, 5, 9}, 16);
  Session session_a(*a, SamplingParams{.temperature = 0});
  Session session_b(*b, SamplingParams{.temperature = 0});
  session_a.feed(std::vector<int32_t>{1, 5, 9});
  session_b.feed(std::vector<int32_t>{1, 5, 9});
  for (size_t i = 0; i < 16; ++i) {
    REQUIRE(session_a.next().token == expected_a[i]);
    REQUIRE(session_b.next().token == expected_b[i]);
  }
}

}  // namespace skald::test
