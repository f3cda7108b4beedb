// llama.cpp's file of logits, which llama-perplexity writes with --kl-divergence-base.
//
// Layout, little-endian: "_logits_"; three int32 (context, vocabulary, chunks); the ids of all
// chunks as int32; then the rows. Each chunk has rows for its positions from context / 2 to
// context - 2. A row: two float32, which are the step and the smallest log-probability; then a
// uint16 per token, its log-probability in steps above the smallest (one uint16 is added if the
// vocabulary is odd). Probabilities below e^-16 of the best are stored as the smallest.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "app/files/output_file.h"
#include "app/perplexity/base_file.h"
#include "app/perplexity/stored_rows.h"
#include "engine/base/error.h"

namespace skald {
namespace {

constexpr std::string_view kLlamaMagic = "_logits_";
constexpr float kFloor = 16;
constexpr int64_t kHeadBytes = 8 + 3 * 4;
constexpr float kSteps = 65535;

int64_t row_bytes(int64_t vocab) { return 2 * (2 * ((vocab + 1) / 2) + 4); }
int64_t rows_per_chunk(int64_t context) { return context - 1 - context / 2; }

class LlamaLogits final : public BaseReader {
 public:
  explicit LlamaLogits(const std::string& path) : file_(path) {
    context_ = file_.number<int32_t>(8);
    vocab_ = file_.number<int32_t>(12);
    chunks_ = file_.number<int32_t>(16);
    if (context_ < 3 || vocab_ < 1 || chunks_ < 1) {
      fail(Exit::Failed, file_.name(), ": a context of ", context_, ", ", vocab_, " tokens and ",
           chunks_, " chunks are impossible; this is no file of llama.cpp's logits");
    }
    // Each factor is below 2^31, so a product of two fits in int64. Products of three are avoided
    // by divisions.
    const int64_t ids = context_ * chunks_;
    const int64_t rows = rows_per_chunk(context_) * chunks_;
    const int64_t after_head = file_.size() - kHeadBytes;
    if (after_head / 4 < ids || (after_head - 4 * ids) / row_bytes(vocab_) < rows) {
      fail(Exit::Failed, file_.name(), ": has ", file_.size(), " bytes, too few for ", chunks_,
           " chunks of ", context_, " and ", vocab_, " tokens; it is incomplete, write it again");
    }
    rows_at_ = kHeadBytes + 4 * ids;
    ids_.resize(static_cast<size_t>(ids));
    file_.read(kHeadBytes, std::as_writable_bytes(std::span(ids_)));
    row_.resize(static_cast<size_t>(row_bytes(vocab_)));
  }

  std::string description() const override {
    return concat(file_.name(), " (llama.cpp's logits, 16 bit)");
  }
  int64_t vocab() const override { return vocab_; }
  int64_t chunks() const override { return chunks_; }
  int64_t context() const override { return context_; }
  std::span<const int32_t> ids() const override { return ids_; }

  StoredComparison compare(int64_t row, std::span<const float> logits, int32_t target) override {
    file_.read(rows_at_ + row * row_bytes(vocab_), row_);
    float head[2];
    std::memcpy(head, row_.data(), sizeof head);
    const auto base_logprob = [&](int64_t id) {
      uint16_t steps;
      std::memcpy(&steps, row_.data() + sizeof head + 2 * id, sizeof steps);
      return double{head[0]} * steps + head[1];
    };
    RowComparison result{score_row(logits, target), {}, 0};
    const double log_total = log_sum_exp(logits);
    result.base.top_logprob = -INFINITY;
    for (int64_t id = 0; id < vocab_; ++id) {
      const double base = base_logprob(id);
      if (base > result.base.top_logprob) {
        result.base.top_logprob = base;
        result.base.top = static_cast<int32_t>(id);
      }
      if (base <= -kFloor) continue;  // as llama.cpp does
      const double p = std::exp(base);
      result.divergence += p * (base - (logits[static_cast<size_t>(id)] - log_total));
      result.base.entropy -= p * base;
    }
    result.base.logprob = base_logprob(target);
    return {result, 0};
  }

 private:
  StoredRows file_;
  int64_t context_, vocab_, chunks_, rows_at_;
  std::vector<int32_t> ids_;
  std::vector<std::byte> row_;
};

class LlamaLogitsWriter final : public BaseWriter {
 public:
  LlamaLogitsWriter(const std::string& path, int64_t context, int64_t vocab,
                    std::span<const int32_t> ids)
      : file_(path, Existing::Replace), row_(static_cast<size_t>(row_bytes(vocab))) {
    check(std::ssize(ids) % context == 0, "a file of logits has whole chunks");
    const int32_t head[] = {static_cast<int32_t>(context), static_cast<int32_t>(vocab),
                            static_cast<int32_t>(std::ssize(ids) / context)};
    file_.write(kLlamaMagic);
    put(head, sizeof head);
    put(ids.data(), ids.size_bytes());
  }

  void write(std::span<const float> logits, int32_t) override {
    const auto [least, best] = std::minmax_element(logits.begin(), logits.end());
    const float floor = std::max(*least, *best - kFloor);
    const float head[] = {(*best - floor) / kSteps,
                          static_cast<float>(floor - log_sum_exp(logits))};
    std::fill(row_.begin(), row_.end(), std::byte{0});
    std::memcpy(row_.data(), head, sizeof head);
    for (size_t i = 0; i < logits.size() && head[0] > 0; ++i) {
      const float steps = std::max(logits[i] - floor, 0.0f) / head[0];
      const auto rounded = static_cast<uint16_t>(std::lround(std::min(steps, kSteps)));
      std::memcpy(row_.data() + sizeof head + 2 * i, &rounded, sizeof rounded);
    }
    put(row_.data(), row_.size());
  }

  void finish() override { file_.finish(); }

 private:
  void put(const void* bytes, size_t count) {
    file_.write({static_cast<const char*>(bytes), count});
  }

  OutputFile file_;
  std::vector<std::byte> row_;
};

}  // namespace

std::unique_ptr<BaseReader> read_llama_logits(const std::string& path) {
  return std::make_unique<LlamaLogits>(path);
}

std::unique_ptr<BaseWriter> write_llama_logits(const std::string& path, int64_t context,
                                               int64_t vocab, std::span<const int32_t> ids) {
  return std::make_unique<LlamaLogitsWriter>(path, context, vocab, ids);
}

}  // namespace skald
