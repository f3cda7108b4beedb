#include "app/perplexity/record.h"

#include "app/files/json.h"
#include "app/files/sealed_line.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"

namespace skald {
namespace {

constexpr std::string_view kVersion = "perplexity 2";

Json to_json(const ModelIdentity& model) {
  return {{"path", model.path},
          {"hash", model.hash},
          {"type", model.type},
          {"kv_type", model.kv_type},
          {"device", model.device}};
}

ModelIdentity read_identity(const Json& json) {
  return {json.at("path"), json.at("hash"), json.at("type"), json.at("kv_type"), json.at("device")};
}

Json to_json(const PplSums& sums) {
  return {{"tokens", sums.tokens}, {"nll", sums.nll}, {"nll_squared", sums.nll_squared}};
}

PplSums read_sums(const Json& json) {
  return {json.at("tokens"), json.at("nll"), json.at("nll_squared")};
}

Json to_json(const ComparisonSums& sums) {
  Json json = {{"base", to_json(sums.base)}};
  json["nll"] = sums.nll;
  json["nll_squared"] = sums.nll_squared;
  json["divergence"] = sums.divergence;
  json["divergence_squared"] = sums.divergence_squared;
  json["largest_divergence"] = sums.largest_divergence;
  json["slack"] = sums.slack;
  json["probability"] = sums.probability;
  json["probability_squared"] = sums.probability_squared;
  json["probability_fourth"] = sums.probability_fourth;
  json["same_top"] = sums.same_top;
  return json;
}

ComparisonSums read_comparison(const Json& json) {
  ComparisonSums sums;
  sums.base = read_sums(json.at("base"));
  sums.nll = json.at("nll");
  sums.nll_squared = json.at("nll_squared");
  sums.divergence = json.at("divergence");
  sums.divergence_squared = json.at("divergence_squared");
  sums.largest_divergence = json.at("largest_divergence");
  sums.slack = json.at("slack");
  sums.probability = json.at("probability");
  sums.probability_squared = json.at("probability_squared");
  sums.probability_fourth = json.at("probability_fourth");
  sums.same_top = json.at("same_top");
  return sums;
}

std::vector<Histogram::Bin> read_bins(const Json& json, int64_t tokens) {
  auto bins = json.get<std::vector<Histogram::Bin>>();
  if (std::ssize(bins) != tokens) {
    fail(Exit::Failed, "expected a bin per token, ", tokens, ", found ", bins.size());
  }
  for (const Histogram::Bin bin : bins) {
    if (bin >= Histogram::kBins) {
      fail(Exit::Failed, "expected bins below ", Histogram::kBins, ", found ", bin);
    }
  }
  return bins;
}

std::string identity_difference(const ModelIdentity& a, const ModelIdentity& b) {
  if (a.hash != b.hash) return concat("models ", a.hash, " and ", b.hash);
  if (a.kv_type != b.kv_type) return concat("caches of ", a.kv_type, " and ", b.kv_type);
  return "";
}

}  // namespace

Json to_json(const PplHeading& heading) {
  Json json = {{"skald", kVersion},
               {"protocol", heading.settings.name()},
               {"context", heading.settings.context},
               {"chunks", heading.chunks}};
  json["text"] = {{"path", heading.text},
                  {"bytes", heading.text_bytes},
                  {"tokens", heading.text_tokens > 0 ? Json(heading.text_tokens) : Json(nullptr)},
                  {"sha256", heading.corpus_hash}};
  json["tokenizer_hash"] = heading.tokenizer_hash;
  json["model"] = to_json(heading.model);
  if (heading.base) json["base"] = to_json(*heading.base);
  return json;
}

PplHeading read_heading(const Json& json) {
  if (json.at("skald").get<std::string>() != kVersion) {
    fail(Exit::Failed, "the first line is no heading of skald's format '", kVersion,
         "'; name another file, or measure again with this version");
  }
  PplHeading heading;
  heading.settings = parse_protocol(json.at("protocol").get<std::string>());
  heading.chunks = json.at("chunks");
  const Json& text = json.at("text");
  heading.text = text.at("path");
  heading.text_bytes = text.at("bytes");
  if (!text.at("tokens").is_null()) heading.text_tokens = text.at("tokens");
  heading.corpus_hash = text.at("sha256");
  heading.tokenizer_hash = json.at("tokenizer_hash");
  heading.model = read_identity(json.at("model"));
  if (json.contains("base")) heading.base = read_identity(json.at("base"));
  if (heading.chunks < 1 || heading.settings.context < 1 || heading.text_tokens < 0) {
    fail(Exit::Failed, "the first line has impossible chunks, context or text tokens");
  }
  return heading;
}

Json to_json(const PplChunk& chunk) {
  Json json = {{"chunk", chunk.chunk}};
  json.update(to_json(chunk.sums));
  json["perplexity"] = chunk.sums.perplexity().value;
  if (chunk.bytes > 0) {
    json["bytes"] = chunk.bytes;
    json["words"] = chunk.words;
  }
  if (chunk.comparison) {
    json["comparison"] = to_json(*chunk.comparison);
    json["divergence_bins"] = chunk.divergences;
    json["probability_bins"] = chunk.probabilities;
  }
  return json;
}

PplChunk read_chunk(const Json& json) {
  PplChunk chunk;
  chunk.chunk = json.at("chunk");
  chunk.sums = read_sums(json);
  if (chunk.sums.tokens < 0 || chunk.sums.nll < 0 || chunk.sums.nll_squared < 0) {
    fail(Exit::Failed, "the sums of chunk ", chunk.chunk, " are impossible");
  }
  if (json.contains("bytes")) {
    chunk.bytes = json.at("bytes");
    chunk.words = json.at("words");
  }
  if (json.contains("comparison")) {
    chunk.comparison = read_comparison(json.at("comparison"));
    chunk.divergences = read_bins(json.at("divergence_bins"), chunk.sums.tokens);
    chunk.probabilities = read_bins(json.at("probability_bins"), chunk.sums.tokens);
  }
  return chunk;
}

std::string record_line(const PplHeading& heading) { return sealed_line(dump(to_json(heading))); }
std::string record_line(const PplChunk& chunk) { return sealed_line(dump(to_json(chunk))); }

std::string heading_difference(const PplHeading& a, const PplHeading& b) {
  if (a.settings.name() != b.settings.name()) {
    return concat("protocols ", a.settings.name(), " and ", b.settings.name());
  }
  if (a.corpus_hash != b.corpus_hash) {
    return concat("texts with SHA-256 ", a.corpus_hash, " and ", b.corpus_hash);
  }
  if (a.tokenizer_hash != b.tokenizer_hash) {
    return concat("tokenizers ", a.tokenizer_hash, " and ", b.tokenizer_hash);
  }
  if (a.chunks != b.chunks) return concat(a.chunks, " and ", counted(b.chunks, "chunk"));
  if (a.base.has_value() != b.base.has_value()) return "with and without a base model";
  const std::string model = identity_difference(a.model, b.model);
  if (!model.empty() || !a.base) return model;
  const std::string base = identity_difference(*a.base, *b.base);
  return base.empty() ? "" : "base " + base;
}

}  // namespace skald
