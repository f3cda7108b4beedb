// A GPU's logits and greedy tokens for a golden's tokens, compared with what Hugging Face
// transformers found in float32.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "cuda/cuda.h"
#include "engine/base/half.h"
#include "engine/schedule/session.h"
#include "tests/catch.h"
#include "tests/golden.h"
#include "tests/safetensors_writer.h"

namespace skald::test {

// A copy of a safetensors file of one 16-bit type and float32, with all numbers as float32.
inline std::string as_floats(const std::string& file) {
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  nlohmann::json header = nlohmann::json::parse(file.substr(8, header_bytes));
  const std::string data = file.substr(8 + header_bytes);
  std::string floats;
  for (auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string type = tensor.at("dtype");
    REQUIRE((type == "F16" || type == "BF16" || type == "F32"));
    nlohmann::json& offsets = tensor.at("data_offsets");
    const size_t begin = offsets[0], end = offsets[1], first = floats.size();
    if (type == "F32") {
      floats += data.substr(begin, end - begin);
    } else {
      for (size_t at = begin; at < end; at += 2) {
        uint16_t half;
        std::memcpy(&half, data.data() + at, sizeof half);
        const float value = type == "F16" ? f16_to_f32(half) : bf16_to_f32(half);
        floats.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
    }
    tensor["dtype"] = "F32";
    offsets = {first, floats.size()};
  }
  return safetensors(header.dump(), floats);
}

inline std::vector<double> softmax(const float* logits, size_t count) {
  const double best = *std::max_element(logits, logits + count);
  std::vector<double> p(count);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += p[i] = std::exp(logits[i] - best);
  for (double& value : p) value /= sum;
  return p;
}

inline double divergence(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0) sum += p[i] * std::log(p[i] / q[i]);
  }
  return sum;
}

using LogitRows = std::vector<std::vector<float>>;

// Runs the step and returns the logits of its rows.
inline LogitRows run_rows(Executor& executor, std::span<const SeqRows> step) {
  const int64_t count = executor.run(step);
  LogitRows rows;
  for (int64_t row = 0; row < count; ++row) {
    const auto logits = executor.logits(row);
    rows.emplace_back(logits.begin(), logits.end());
  }
  return rows;
}

inline double mean_divergence(const LogitRows& a, const LogitRows& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += divergence(softmax(a[i].data(), a[i].size()), softmax(b[i].data(), b[i].size()));
  }
  return sum / static_cast<double>(a.size());
}

// Rows of logits by position; the tokens are fed `chunk` a step.
inline std::map<int64_t, std::vector<float>> run_text(Executor& executor,
                                                      const std::vector<int32_t>& ids,
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

inline std::vector<int32_t> continue_text(Executor& executor, const std::vector<int32_t>& prompt,
                                          size_t count) {
  Session session(executor, SamplingParams{.temperature = 0});
  session.feed(prompt);
  std::vector<int32_t> ids;
  while (ids.size() < count) ids.push_back(session.next().token);
  return ids;
}

// Compares the logits if the GPU computes in float32 (`exact`), else the divergence of the
// predictions.
inline void check_golden(Executor& executor, const nlohmann::json& golden, const Matrix& expected,
                         bool exact, const std::string& name) {
  const auto ids = golden["input_ids"].get<std::vector<int32_t>>();
  std::vector<int64_t> rows(static_cast<size_t>(expected.rows));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  if (golden.contains("logit_rows")) rows = golden["logit_rows"].get<std::vector<int64_t>>();
  // All tokens at once, in pieces, and (if they are few) one by one through the decode path.
  for (const size_t chunk : {size_t{512}, size_t{7}, size_t{1}}) {
    if (chunk < 512 && ids.size() > 500) continue;
    CAPTURE(name, chunk);
    const auto logits = run_text(executor, ids, chunk);
    double largest = 0, kl = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<float>& row = logits.at(rows[i]);
      const float* reference = expected.row(static_cast<int64_t>(i));
      REQUIRE(row.size() == static_cast<size_t>(expected.cols));
      for (size_t c = 0; c < row.size(); ++c) {
        const double difference = std::fabs(double{row[c]} - reference[c]);
        if (!(difference <= largest)) largest = difference;  // NaN too
      }
      kl += divergence(softmax(reference, row.size()), softmax(row.data(), row.size()));
    }
    kl /= static_cast<double>(rows.size());
    std::printf("%-28s chunk %3zu: largest difference of a logit %.2e, mean KL %.2e\n",
                name.c_str(), chunk, largest, kl);
    CHECK(kl <= 1e-3);
    if (exact) CHECK(largest <= 1e-3);
  }
  if (!golden.contains("greedy_ids")) return;
  const auto greedy = golden["greedy_ids"].get<std::vector<int32_t>>();
  const auto margins = golden["greedy_margins"].get<std::vector<double>>();
  // Activations of 16 bits move logits by a few hundredths.
  const double clear_margin = exact ? 1e-3 : 0.05;
  const size_t clear = static_cast<size_t>(
      std::find_if(margins.begin(), margins.end(), [&](double m) { return m < clear_margin; }) -
      margins.begin());
  const auto prompt = golden["greedy_prompt_ids"].get<std::vector<int32_t>>();
  CHECK(continue_text(executor, prompt, clear) ==
        std::vector<int32_t>(greedy.begin(), greedy.begin() + static_cast<int64_t>(clear)));
}

}  // namespace skald::test
