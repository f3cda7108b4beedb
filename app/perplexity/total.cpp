#include "app/perplexity/total.h"

#include <cmath>

#include "engine/base/error.h"

namespace skald {

void PplTotal::add(const PplChunk& chunk) {
  if (count_ == 0) first_ = chunk.chunk;
  check(chunk.chunk == first_ + count_, "chunks come in order");
  ++count_;
  sums_.add(chunk.sums);
  words_ += chunk.words;
  bytes_ += chunk.bytes;
  points_.push_back({chunk.sums.perplexity().value, sums_.perplexity().value});
  if (heading_.settings.protocol == PplProtocol::HuggingFace && chunk.sums.tokens > 0) {
    const PplSettings& settings = heading_.settings;
    const ChunkPlace place = chunk_place(settings, heading_.text_tokens, chunk.chunk);
    const int64_t seen = chunk.chunk == 0 ? 0 : settings.context - settings.stride;
    const double weight = static_cast<double>(place.length - seen - 1);
    page_nll_ += chunk.sums.mean().value * weight;
    page_weight_ += weight;
  }
  if (!chunk.comparison) return;
  if (!comparison_) {
    comparison_.emplace();
    divergences_.emplace();
    probabilities_.emplace();
  }
  comparison_->add(*chunk.comparison);
  for (const Histogram::Bin bin : chunk.divergences) divergences_->add(bin);
  for (const Histogram::Bin bin : chunk.probabilities) probabilities_->add(bin);
}

double PplTotal::page_perplexity() const { return std::exp(page_nll_ / page_weight_); }

}  // namespace skald
