// Vectors as a result: cut, normalized, and written as JSON in OpenAI's form or in that of --plain;
// or the ranking that follows from them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/embed/request.h"
#include "app/files/json_fwd.h"

namespace skald {

// What the model made of a request's texts.
struct EmbedResult {
  std::vector<std::vector<float>> vectors;  // as pooled, in the order of the texts
  int64_t tokens = 0, cut = 0;              // computed; dropped as --on-overflow asked
  std::string model;
  bool normalize = true;
};

// The first `dimensions` numbers (0: all), divided by their length if `normalize`. A vector of
// zeros stays as it is.
std::vector<float> finished_vector(std::span<const float> vector, int64_t dimensions,
                                   bool normalize);
double cosine(std::span<const float> a, std::span<const float> b);  // 0 if one of them is all zeros

// The bytes of little-endian floats, as encoding_format "base64" has them.
std::string base64_of(std::span<const float> vector);
std::vector<float> vector_of_base64(const std::string& text);  // empty: not such bytes

// The body of a response. name: the request's, for its id.
Json embed_body(const EmbedRequest& request, const EmbedResult& result, const std::string& name);
// The fields of a plain result: "embedding" of one text, "embeddings" of a list; "results".
Json embed_fields(const EmbedRequest& request, const EmbedResult& result);

}  // namespace skald
