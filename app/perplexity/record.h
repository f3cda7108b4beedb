// The records of a perplexity run as JSON lines: a heading, which says what is measured, then a
// line per chunk. --jsonl and --checkpoint write them, --merge reads them. Doubles are written with
// all digits, so that a merged result equals that of one run.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json_fwd.h"
#include "engine/perplexity/histogram.h"
#include "engine/perplexity/protocol.h"
#include "engine/perplexity/sums.h"

namespace skald {

struct ModelIdentity {
  std::string path, hash, type, kv_type, device;
};

struct PplHeading {
  PplSettings settings;
  int64_t chunks = 0;       // of the whole text; for `doc`, the number of documents
  int64_t text_tokens = 0;  // 0: not known, as for documents, which are read one by one
  int64_t text_bytes = 0;
  std::string text, corpus_hash, tokenizer_hash;
  ModelIdentity model;
  std::optional<ModelIdentity> base;
};

struct PplChunk {
  int64_t chunk = 0;
  PplSums sums;
  int64_t bytes = 0, words = 0;  // documents only
  std::optional<ComparisonSums> comparison;
  // Two bins for each token, for percentiles: of its divergence, and of its change in probability.
  std::vector<Histogram::Bin> divergences, probabilities;
};

Json to_json(const PplHeading& heading);
Json to_json(const PplChunk& chunk);

// The same as a line with a checksum (app/files/sealed_line.h), without its newline.
std::string record_line(const PplHeading& heading);
std::string record_line(const PplChunk& chunk);

// Read what to_json() wrote. Throw nlohmann::json::exception or Error for anything else.
PplHeading read_heading(const Json& json);
PplChunk read_chunk(const Json& json);

// The difference that makes two runs incomparable, in words; "" if there is none. The device may
// differ.
std::string heading_difference(const PplHeading& a, const PplHeading& b);

}  // namespace skald
