// The request of a line for vectors, or for a ranking by vectors:
//   {"input": a text, token ids, or a list of either, "dimensions": N, "encoding_format": "base64"}
//   {"query": TEXT, "documents": [TEXT, ...], "top_n": N, "return_documents": true}
// Reading a request needs no model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/jobs/texts.h"

namespace skald {

inline constexpr std::string_view kEmbeddingsUrl = "/v1/embeddings", kRerankUrl = "/v1/rerank";

struct EmbedRequest {
  bool ranking = false;
  std::string model;            // as the line names it, or ""
  std::vector<LineText> texts;  // of a ranking: the query, then the documents
  int64_t dimensions = 0;       // numbers of a vector; 0: all
  bool base64 = false;
  int64_t top = 0;  // results of a ranking; 0: all
  bool return_documents = false;
};

// True if a body is such a request. url: the line's `url` in OpenAI's form, or "".
bool is_embed_request(const Json& body, std::string_view url);

// Adds the names of fields without effect to `unknown`. Throws LineError.
EmbedRequest read_embed_request(const Json& body, std::string_view url,
                                std::vector<std::string>& unknown);

}  // namespace skald
