// The result of a perplexity run. Chunks are added in order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/perplexity/record.h"
#include "engine/perplexity/histogram.h"

namespace skald {

class PplTotal {
 public:
  explicit PplTotal(PplHeading heading) : heading_(std::move(heading)) {}

  void add(const PplChunk& chunk);  // the next one

  const PplHeading& heading() const { return heading_; }
  const PplSums& sums() const { return sums_; }
  int64_t chunks() const { return count_; }
  int64_t first() const { return first_; }  // chunks [first, first + chunks)
  bool whole() const { return count_ == heading_.chunks; }

  // For the doc protocol only.
  int64_t words() const { return words_; }
  int64_t bytes() const { return bytes_; }

  // For the hf protocol only: the value by the formula on Hugging Face's page on perplexity, which
  // weights each window by one less than the number of its labels.
  double page_perplexity() const;

  const std::optional<ComparisonSums>& comparison() const { return comparison_; }
  const Histogram& divergences() const { return *divergences_; }
  const Histogram& probabilities() const { return *probabilities_; }

  // For a plot: the chunk's perplexity, and the perplexity of all chunks so far.
  struct Point {
    double chunk, running;
  };
  const std::vector<Point>& points() const { return points_; }

 private:
  PplHeading heading_;
  PplSums sums_;
  int64_t first_ = 0, count_ = 0, words_ = 0, bytes_ = 0;
  double page_nll_ = 0, page_weight_ = 0;
  std::optional<ComparisonSums> comparison_;
  std::optional<Histogram> divergences_, probabilities_;
  std::vector<Point> points_;
};

}  // namespace skald
