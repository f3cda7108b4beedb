#include "app/perplexity/report.h"

#include <cmath>
#include <cstdio>
#include <numbers>

#include "app/files/json.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/number_text.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr double kPercentiles[] = {99.9, 99, 95, 90, 50, 10, 5, 1, 0.1};

std::string plus_minus(const Estimate& estimate, const char* format) {
  return number_text(estimate.value, format) + " ± " + number_text(estimate.error, format);
}

std::string row(const std::string& name, const std::string& value) {
  constexpr size_t kColumn = 24;
  return name + std::string(kColumn > name.size() ? kColumn - name.size() : 1, ' ') + value + "\n";
}

// Describes a protocol in words.
std::string meaning(const PplSettings& settings) {
  const int64_t context = settings.context;
  switch (settings.protocol) {
    case PplProtocol::LlamaCpp:
      return concat("chunks of ", context, ", BOS first, tokens ", context / 2 + 1, " to ",
                    context - 1, " scored");
    case PplProtocol::HuggingFace:
      return concat("windows of ", context, ", moved by ", settings.stride);
    case PplProtocol::Gptq:
      return concat("disjoint windows of ", context, ", all tokens but the first scored");
    case PplProtocol::Documents:
      return concat("windows of ", context, " in each document, all tokens scored");
  }
  return "";
}

std::string chunks_text(const PplTotal& total) {
  const char* what =
      total.heading().settings.protocol == PplProtocol::Documents ? "document" : "chunk";
  std::string text =
      concat(counted(total.sums().tokens, "token"), " of ", counted(total.chunks(), what));
  if (!total.whole()) {
    text += concat(" (", total.first(), " to ", total.first() + total.chunks() - 1, " of ",
                   total.heading().chunks, ")");
  }
  return text;
}

std::string model_text(const ModelIdentity& model) {
  return concat(printable(model.path), ", ", model.type, ", KV ", model.kv_type, ", ",
                model.device);
}

Estimate share_of(int64_t part, int64_t all) {
  const double n = static_cast<double>(all), share = static_cast<double>(part) / n;
  return {share, all > 1 ? std::sqrt(share * (1 - share) / (n - 1)) : 0};
}

struct Comparison {
  Estimate ln_ratio, ratio, base_perplexity, divergence, probability, rms_probability, same_top;
  double correlation = 0, slack = 0;
};

Comparison comparison_of(const PplTotal& total) {
  const ComparisonSums& c = *total.comparison();
  const int64_t count = total.sums().tokens;
  const double n = static_cast<double>(count);
  Comparison result;
  result.base_perplexity = c.base.perplexity();
  result.ln_ratio = mean_of(c.nll, c.nll_squared, count);
  const double ratio = std::exp(result.ln_ratio.value);
  result.ratio = {ratio, ratio * result.ln_ratio.error};
  result.divergence = mean_of(c.divergence, c.divergence_squared, count);
  result.slack = c.slack / n;
  result.probability = mean_of(c.probability, c.probability_squared, count);
  const Estimate square = mean_of(c.probability_squared, c.probability_fourth, count);
  const double rms = std::sqrt(square.value);
  result.rms_probability = {rms, rms > 0 ? square.error / (2 * rms) : 0};
  result.same_top = share_of(c.same_top, count);
  const auto variance = [n](double sum, double squares) {
    return squares / n - sum / n * (sum / n);
  };
  const double a = variance(total.sums().nll, total.sums().nll_squared);
  const double b = variance(c.base.nll, c.base.nll_squared);
  const double difference = variance(c.nll, c.nll_squared);
  result.correlation = a > 0 && b > 0 ? (a + b - difference) / (2 * std::sqrt(a * b)) : 1;
  return result;
}

std::string comparison_text(const PplTotal& total) {
  const Comparison c = comparison_of(total);
  const auto percent = [](const Estimate& e) {
    return plus_minus({100 * e.value, 100 * e.error}, "%.3f") + " %";
  };
  std::string out = "\n";
  out += row("base", model_text(*total.heading().base));
  out += row("base perplexity", plus_minus(c.base_perplexity, "%.6f"));
  out += row("ln(ratio)", plus_minus(c.ln_ratio, "%.6f") + "  (paired; correlation " +
                              number_text(100 * c.correlation, "%.2f") + " %)");
  out += row("ratio", plus_minus(c.ratio, "%.6f"));
  out += row("KL divergence", plus_minus(c.divergence, "%.6f") +
                                  (c.slack > 0 ? "  (lower bound; the exact value is at most " +
                                                     number_text(c.slack, "%.6f") + " more)"
                                               : ""));
  out += row("  largest", number_text(total.comparison()->largest_divergence, "%.6f"));
  for (const double p : kPercentiles) {
    out += row(concat("  ", p, " %"), number_text(total.divergences().percentile(p), "%.6f"));
  }
  out += row("Δp, mean", percent(c.probability));
  for (const double p : kPercentiles) {
    out += row(concat("  ", p, " %"),
               number_text(100 * total.probabilities().percentile(p), "%.3f %%"));
  }
  out += row("Δp, RMS", percent(c.rms_probability));
  out += row("same top token", percent(c.same_top));
  return out;
}

Json to_json(const Estimate& estimate) {
  return {{"value", estimate.value}, {"error", estimate.error}};
}

Json percentiles_json(const Histogram& histogram) {
  Json json = Json::object();
  for (const double p : kPercentiles) json[concat(p)] = histogram.percentile(p);
  return json;
}

Json comparison_json(const PplTotal& total) {
  const Comparison c = comparison_of(total);
  return {{"base_perplexity", to_json(c.base_perplexity)},
          {"ln_ratio", to_json(c.ln_ratio)},
          {"ratio", to_json(c.ratio)},
          {"correlation", c.correlation},
          {"divergence", to_json(c.divergence)},
          {"divergence_slack", c.slack},
          {"divergence_largest", total.comparison()->largest_divergence},
          {"divergence_percentiles", percentiles_json(total.divergences())},
          {"probability_difference", to_json(c.probability)},
          {"probability_difference_percentiles", percentiles_json(total.probabilities())},
          {"probability_difference_rms", to_json(c.rms_probability)},
          {"same_top", to_json(c.same_top)}};
}

struct DocumentRates {
  double word_perplexity, byte_perplexity, bits_per_byte;
};

DocumentRates rates_of(const PplTotal& total) {
  const double words = static_cast<double>(total.words()),
               bytes = static_cast<double>(total.bytes());
  const double nll = total.sums().nll;
  return {std::exp(nll / words), std::exp(nll / bytes), nll / bytes / std::numbers::ln2};
}

}  // namespace

std::string to_text(const PplTotal& total) {
  const PplHeading& heading = total.heading();
  const Estimate mean = total.sums().mean();
  std::string out;
  out += row("perplexity", plus_minus(total.sums().perplexity(), "%.6f"));
  out += row("nats per token", plus_minus(mean, "%.6f"));
  out += row("bits per token", number_text(mean.value / std::numbers::ln2, "%.6f"));
  if (heading.settings.protocol == PplProtocol::HuggingFace) {
    out += row("weighted like HF's page", number_text(total.page_perplexity(), "%.6f"));
  }
  if (heading.settings.protocol == PplProtocol::Documents) {
    const DocumentRates rates = rates_of(total);
    out += row("word perplexity", number_text(rates.word_perplexity, "%.6f"));
    out += row("byte perplexity", number_text(rates.byte_perplexity, "%.6f"));
    out += row("bits per byte", number_text(rates.bits_per_byte, "%.6f"));
  }
  out += "\n";
  out += row("protocol", concat(heading.settings.name(), ": ", meaning(heading.settings)));
  out += row("scored", chunks_text(total));
  out +=
      row("text", concat(printable(heading.text), ", ", counted(heading.text_bytes, "byte"),
                         heading.text_tokens ? ", " + counted(heading.text_tokens, "token") : ""));
  out += row("text SHA-256", heading.corpus_hash);
  out += row("tokenizer", heading.tokenizer_hash);
  out += row("model", model_text(heading.model));
  out += row("model hash", heading.model.hash);
  if (total.comparison()) out += comparison_text(total);
  return out;
}

Json to_json(const PplTotal& total) {
  Json json = to_json(total.heading());
  // All tokens of a document are scored.
  const bool documents = total.heading().settings.protocol == PplProtocol::Documents;
  if (documents && total.whole()) json["text"]["tokens"] = total.sums().tokens;
  json["first_chunk"] = total.first();
  json["scored_chunks"] = total.chunks();
  json["scored_tokens"] = total.sums().tokens;
  json["perplexity"] = to_json(total.sums().perplexity());
  json["nll"] = to_json(total.sums().mean());
  if (total.heading().settings.protocol == PplProtocol::HuggingFace) {
    json["page_perplexity"] = total.page_perplexity();
  }
  if (documents) {
    const DocumentRates rates = rates_of(total);
    json["words"] = total.words();
    json["bytes"] = total.bytes();
    json["word_perplexity"] = rates.word_perplexity;
    json["byte_perplexity"] = rates.byte_perplexity;
    json["bits_per_byte"] = rates.bits_per_byte;
  }
  if (total.comparison()) json["comparison"] = comparison_json(total);
  return json;
}

std::string llama_running(const PplTotal& total) {
  return concat("[", total.chunks(), "]", number_text(total.sums().perplexity().value, "%.4f"),
                ",");
}

std::string llama_final(const PplTotal& total) {
  const Estimate perplexity = total.sums().perplexity();
  return "\nFinal estimate: PPL = " + number_text(perplexity.value, "%.4f") + " +/- " +
         number_text(perplexity.error, "%.5f") + "\n";
}

}  // namespace skald
