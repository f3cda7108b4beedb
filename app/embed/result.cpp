#include "app/embed/result.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "app/files/json.h"
#include "app/files/json_number.h"
#include "engine/base/error.h"

namespace skald {
namespace {

static_assert(std::endian::native == std::endian::little, "vectors are written as they lie");

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

Json vector_json(const EmbedRequest& request, const EmbedResult& result,
                 const std::vector<float>& pooled) {
  const std::vector<float> vector = finished_vector(pooled, request.dimensions, result.normalize);
  if (request.base64) return base64_of(vector);
  Json list = Json::array();
  for (const float value : vector) list.push_back(float_json(value));
  return list;
}

Json ranking_json(const EmbedRequest& request, const EmbedResult& result) {
  const auto cut = [&](size_t i) {
    return finished_vector(result.vectors[i], request.dimensions, false);
  };
  const std::vector<float> query = cut(0);
  std::vector<std::pair<double, size_t>> ranks;  // by document
  for (size_t i = 1; i < result.vectors.size(); ++i) ranks.emplace_back(cosine(query, cut(i)), i);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (request.top > 0) ranks.resize(std::min(ranks.size(), static_cast<size_t>(request.top)));
  Json list = Json::array();
  for (const auto& [score, i] : ranks) {
    Json one = {{"index", i - 1}, {"relevance_score", score}};
    if (request.return_documents) one["document"] = {{"text", request.texts[i].text}};
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

std::vector<float> finished_vector(std::span<const float> vector, int64_t dimensions,
                                   bool normalize) {
  if (dimensions > 0) vector = vector.first(static_cast<size_t>(dimensions));
  std::vector<float> finished(vector.begin(), vector.end());
  const double length = std::sqrt(dot(finished, finished));
  if (!normalize || length == 0) return finished;
  for (float& value : finished) value = static_cast<float>(value / length);
  return finished;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  const double lengths = std::sqrt(dot(a, a)) * std::sqrt(dot(b, b));
  return lengths > 0 ? dot(a, b) / lengths : 0;
}

std::string base64_of(std::span<const float> vector) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(vector.data());
  const size_t count = vector.size_bytes();
  std::string text;
  text.reserve((count + 2) / 3 * 4);
  for (size_t i = 0; i < count; i += 3) {
    const size_t there = std::min<size_t>(count - i, 3);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < there ? bytes[i + k] : 0u);
    for (size_t k = 0; k < 4; ++k) {
      text += k <= there ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

std::vector<float> vector_of_base64(const std::string& text) {
  std::string bytes;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    if (c == '=') break;
    const size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) return {};
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes += static_cast<char>(bits >> held & 255);
    }
  }
  if (bytes.size() % sizeof(float) != 0) return {};
  std::vector<float> vector(bytes.size() / sizeof(float));
  if (vector.empty()) return vector;  // its pointer is null
  std::memcpy(vector.data(), bytes.data(), bytes.size());
  return vector;
}

Json embed_body(const EmbedRequest& request, const EmbedResult& result, const std::string& name) {
  Json body = Json::object();
  if (request.ranking) {
    body["id"] = "rerank-" + name;
    body["model"] = result.model;
    body["results"] = ranking_json(request, result);
  } else {
    Json data = Json::array();
    for (const std::vector<float>& vector : result.vectors) {
      data.push_back({{"object", "embedding"},
                      {"index", data.size()},
                      {"embedding", vector_json(request, result, vector)}});
    }
    body["object"] = "list";
    body["data"] = std::move(data);
    body["model"] = result.model;
  }
  body["usage"] = {{"prompt_tokens", result.tokens}, {"total_tokens", result.tokens}};
  if (result.cut > 0) body["truncated_prompt_tokens"] = result.cut;
  return body;
}

Json embed_fields(const EmbedRequest& request, const EmbedResult& result) {
  Json fields = Json::object();
  if (request.ranking) {
    fields["results"] = ranking_json(request, result);
  } else if (result.vectors.size() == 1) {
    fields["embedding"] = vector_json(request, result, result.vectors.front());
  } else {
    Json list = Json::array();
    for (const std::vector<float>& vector : result.vectors) {
      list.push_back(vector_json(request, result, vector));
    }
    fields["embeddings"] = std::move(list);
  }
  fields["prompt_tokens"] = result.tokens;
  if (result.cut > 0) fields["truncated_prompt_tokens"] = result.cut;
  return fields;
}

}  // namespace skald
