// skald's compact base file. Each row holds the most probable tokens and the total probability of
// all other tokens. A row takes about 2 KB; llama.cpp's format takes 64 to 256 KB.
//
// Layout, little-endian: "SKALDKL2"; a uint64 with the length of a JSON object; the object (the
// heading of the run, chunks "first" and "last", "vocab", "top", "checksum"); then one row per
// scored token. A row: float32 log-probabilities [top], best first; int32 ids [top]; three float32,
// which are the target's log-probability, the total probability m of all other tokens, and the sum
// of p ln p over the other tokens; a checksum of the row's number and bytes, as hexadecimal digits
// [16].
//
// Let p be the base model's distribution and q the compared model's. The divergence over the stored
// tokens is exact. For the other tokens, the sum of p ln(p / q) lies between two bounds:
//   lower: m ln(m / m_q), where m_q is the total probability that q gives to the other tokens (the
//   log-sum inequality). This value is reported.
//   upper: the stored sum of p ln p minus the smallest possible sum of p ln q. No p of the other
//   tokens exceeds the smallest stored p, so the sum is smallest if the mass m lies on the tokens
//   that q finds least likely.
// The row's slack is the upper bound minus the lower bound.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "app/files/json.h"
#include "app/files/output_file.h"
#include "app/files/sealed_line.h"
#include "app/perplexity/base_file.h"
#include "app/perplexity/stored_rows.h"
#include "engine/base/error.h"
#include "engine/base/sha256.h"

namespace skald {
namespace {

constexpr size_t kSealDigits = 16;
constexpr int64_t kMostHeadBytes = 1 << 20;

struct RowTail {
  float target, mass, sum;  // target's log-probability; m; sum of p ln p over the other tokens
};

int64_t row_bytes(int top) {
  return int64_t{top} * 8 + static_cast<int64_t>(sizeof(RowTail) + kSealDigits);
}

std::string seal_of(int64_t row, std::span<const float> logprobs, std::span<const int32_t> ids,
                    const RowTail& tail) {
  Sha256 hash;
  hash.add_number(static_cast<uint64_t>(row));
  hash.add(std::as_bytes(logprobs)).add(std::as_bytes(ids));
  return hash.add(std::as_bytes(std::span(&tail, 1))).hex().substr(0, kSealDigits);
}

class CompactBase final : public BaseReader {
 public:
  explicit CompactBase(const std::string& path) : file_(path) {
    const auto head_bytes = file_.number<uint64_t>(8);
    if (head_bytes > kMostHeadBytes) refuse();
    std::string head(head_bytes, ' ');
    file_.read(16, std::as_writable_bytes(std::span(head)));
    if (!seal_fits(head)) refuse();
    const Json json = parse_json_or_null(head);
    try {
      heading_ = read_heading(json);
      range_ = {json.at("first"), json.at("last"), json.at("vocab")};
      top_ = json.at("top");
    } catch (const Json::exception&) {
      refuse();
    }
    if (top_ < 1 || top_ > file_.size() || range_.vocab < top_ || range_.first < 0 ||
        range_.last <= range_.first) {
      refuse();
    }
    rows_at_ = 16 + static_cast<int64_t>(head_bytes);
    logprobs_.resize(static_cast<size_t>(top_));
    ids_.resize(static_cast<size_t>(top_));
  }

  std::string description() const override {
    return concat(file_.name(), " (compact, the ", top_, " most probable tokens)");
  }
  int64_t vocab() const override { return range_.vocab; }
  int64_t first_chunk() const override { return range_.first; }
  int64_t chunks() const override { return range_.last - range_.first; }
  std::optional<PplHeading> heading() const override { return heading_; }

  StoredComparison compare(int64_t row, std::span<const float> logits, int32_t target) override {
    const RowTail tail = read_row(row);
    RowComparison result{score_row(logits, target), {}, 0};
    result.base.logprob = tail.target;
    result.base.top = ids_[0];
    result.base.top_logprob = logprobs_[0];
    result.base.entropy = -tail.sum;
    const double log_total = log_sum_exp(logits);
    double rest = 1;  // m_q
    rest_.assign(logits.begin(), logits.end());
    for (size_t i = 0; i < ids_.size(); ++i) {
      const auto id = static_cast<size_t>(ids_[i]);
      if (ids_[i] < 0 || id >= logits.size()) refuse();
      const double logprob = logits[id] - log_total, base = logprobs_[i], p = std::exp(base);
      result.divergence += p * (base - logprob);
      result.base.entropy -= p * base;
      rest -= std::exp(logprob);
      rest_[id] = INFINITY;  // a stored token: sorts behind the other tokens
    }
    if (tail.mass <= 0 || ids_.size() == logits.size()) return {result, 0};
    const double mass = tail.mass;
    rest = std::max(rest, 1e-300);
    const double least = mass * std::log(mass / rest);
    const double most = tail.sum - worst_sum(mass, log_total);
    result.divergence += least;
    return {result, std::max(most - least, 0.0)};
  }

 private:
  [[noreturn]] void refuse() const {
    fail(Exit::Failed, file_.name(), ": the base file is damaged; write it again with --save-base");
  }

  RowTail read_row(int64_t row) {
    const int64_t at = rows_at_ + row * row_bytes(top_);
    RowTail tail;
    file_.read(at, std::as_writable_bytes(std::span(logprobs_)));
    file_.read(at + 4 * top_, std::as_writable_bytes(std::span(ids_)));
    file_.read(at + 8 * top_, std::as_writable_bytes(std::span(&tail, 1)));
    std::string seal(kSealDigits, ' ');
    file_.read(at + row_bytes(top_) - static_cast<int64_t>(kSealDigits),
               std::as_writable_bytes(std::span(seal)));
    if (seal != seal_of(row, logprobs_, ids_, tail)) refuse();
    return tail;
  }

  // The smallest possible sum of p ln q over the other tokens, if they have the total probability
  // `mass` and none has more than the smallest stored p.
  double worst_sum(double mass, double log_total) {
    const double most_p = std::exp(double{logprobs_.back()});
    const size_t count = static_cast<size_t>(
        std::min(std::ceil(mass / most_p), static_cast<double>(rest_.size() - ids_.size())));
    const auto end = rest_.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(count, 1));
    std::nth_element(rest_.begin(), end - 1, rest_.end());
    std::sort(rest_.begin(), end);
    double sum = 0, left = mass;
    for (auto logit = rest_.begin(); logit != end; ++logit) {
      const double p = logit + 1 == end ? left : std::min(most_p, left);
      sum += p * (*logit - log_total);
      left -= p;
    }
    return sum;
  }

  StoredRows file_;
  std::optional<PplHeading> heading_;
  BaseRange range_;
  int top_ = 0;
  int64_t rows_at_ = 0;
  std::vector<float> logprobs_;  // [top]
  std::vector<int32_t> ids_;     // [top]
  std::vector<float> rest_;      // [vocab], logits of the other tokens; infinity for stored ones
};

class CompactBaseWriter final : public BaseWriter {
 public:
  CompactBaseWriter(const std::string& path, const PplHeading& heading, const BaseRange& range,
                    int top)
      : file_(path, Existing::Replace),
        top_(static_cast<size_t>(std::min<int64_t>(top, range.vocab))) {
    Json json = to_json(heading);
    json["first"] = range.first;
    json["last"] = range.last;
    json["vocab"] = range.vocab;
    json["top"] = top_;
    const std::string head = sealed_line(dump(json));
    const uint64_t bytes = head.size();
    file_.write(kCompactBase);
    put(&bytes, sizeof bytes);
    file_.write(head);
  }

  void write(std::span<const float> logits, int32_t target) override {
    order_.resize(logits.size());
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<int32_t>(i);
    const auto logit = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
    const auto better = [&](int32_t a, int32_t b) {
      return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
    };
    const auto end = order_.begin() + static_cast<std::ptrdiff_t>(top_);
    std::nth_element(order_.begin(), end - 1, order_.end(), better);
    std::sort(order_.begin(), end, better);

    const double log_total = log_sum_exp(logits);
    logprobs_.clear();
    for (auto id = order_.begin(); id != end; ++id) {
      logprobs_.push_back(static_cast<float>(logit(*id) - log_total));
    }
    double mass = 0, sum = 0;
    for (auto id = end; id != order_.end(); ++id) {
      const double logprob = logit(*id) - log_total, p = std::exp(logprob);
      mass += p;
      if (p > 0) sum += p * logprob;
    }
    const RowTail tail = {static_cast<float>(logit(target) - log_total), static_cast<float>(mass),
                          static_cast<float>(sum)};
    put(logprobs_.data(), 4 * top_);
    put(order_.data(), 4 * top_);
    put(&tail, sizeof tail);
    file_.write(seal_of(rows_++, logprobs_, std::span(order_).first(top_), tail));
  }

  void finish() override { file_.finish(); }

 private:
  void put(const void* bytes, size_t count) {
    file_.write({static_cast<const char*>(bytes), count});
  }

  OutputFile file_;
  size_t top_;
  int64_t rows_ = 0;
  std::vector<int32_t> order_;
  std::vector<float> logprobs_;
};

}  // namespace

std::unique_ptr<BaseReader> read_compact_base(const std::string& path) {
  return std::make_unique<CompactBase>(path);
}

std::unique_ptr<BaseWriter> write_compact_base(const std::string& path, const PplHeading& heading,
                                               const BaseRange& range, int top) {
  return std::make_unique<CompactBaseWriter>(path, heading, range, top);
}

}  // namespace skald
