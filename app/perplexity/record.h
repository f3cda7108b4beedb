// The records of a perplexity run: what was measured, and what each chunk gave. As JSON lines they
// are what --jsonl writes, what --checkpoint goes on from and what --merge joins: a heading, then a
// line a chunk. Doubles are written with all their digits.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json.h"
#include "engine/perplexity/histogram.h"
#include "engine/perplexity/protocol.h"
#include "engine/perplexity/sums.h"

namespace skald {

struct ModelIdentity {
  std::string path, hash, type, kv_type, device;
};

struct PplHeading {
  PplSettings settings;
  int64_t chunks = 0;  // of the whole text; of `doc`: documents
  int64_t text_tokens = 0, text_bytes = 0;
  std::string text, corpus_hash, tokenizer_hash;
  ModelIdentity model;
  std::optional<ModelIdentity> base;
};

struct PplChunk {
  int64_t chunk = 0;
  PplSums sums;
  int64_t bytes = 0, words = 0;  // of a document
  std::optional<ComparisonSums> comparison;
  // Of each token, for percentiles: its divergence, and the difference of probabilities.
  std::vector<Histogram::Bin> divergences, probabilities;
};

Json to_json(const PplHeading& heading);
Json to_json(const PplChunk& chunk);

// Throw nlohmann::json::exception, or Error with a reason, for what was not written by to_json().
PplHeading read_heading(const Json& json);
PplChunk read_chunk(const Json& json);

// Why two headings are not of one measurement: "" where they are. The device may differ.
std::string heading_difference(const PplHeading& a, const PplHeading& b);

}  // namespace skald
