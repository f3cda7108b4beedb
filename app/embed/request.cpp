#include "app/embed/request.h"

#include "app/files/json.h"
#include "app/jobs/fields.h"
#include "app/jobs/line.h"
#include "engine/base/error.h"

namespace skald {
namespace {

constexpr int64_t kMostDimensions = 1 << 20;

// A document is a text, or an object with one, as some clients write it.
std::vector<LineText> read_documents(const Json& documents) {
  if (!documents.is_array() || documents.empty()) {
    fail_field("documents", "a list of texts", documents);
  }
  std::vector<LineText> texts;
  for (const Json& one : documents) {
    const Json text = one.is_object() ? one.value("text", Json()) : one;
    if (!text.is_string()) fail_field("documents", "a list of texts", one);
    texts.push_back({text.get<std::string>(), {}, false});
  }
  return texts;
}

void read_ranking(LineFields& fields, EmbedRequest& request) {
  std::string query;
  const Json* documents = fields.find("documents");
  if (!fields.read("query", query) || !documents) {
    fail_request("expected 'query' and 'documents'");
  }
  request.texts = read_documents(*documents);
  request.texts.insert(request.texts.begin(), LineText{query, {}, false});
  fields.read_integer("top_n", 1, INT32_MAX, request.top);
  fields.read("return_documents", request.return_documents);
}

void read_vectors(LineFields& fields, EmbedRequest& request) {
  const Json* input = fields.find("input");
  if (!input) fail_request("expected 'input', or 'query' and 'documents'");
  request.texts = read_texts("input", *input);
  std::string encoding;
  if (!fields.read("encoding_format", encoding)) return;
  if (encoding != "float" && encoding != "base64") {
    fail_field("encoding_format", "float or base64", *fields.find("encoding_format"));
  }
  request.base64 = encoding == "base64";
}

}  // namespace

bool is_embed_request(const Json& body, std::string_view url) {
  if (!url.empty()) return url == kEmbeddingsUrl || url == kRerankUrl;
  for (const char* other : {"prompt", "messages", "prompt_ids"}) {
    if (body.contains(other)) return false;
  }
  return body.contains("input") || body.contains("query");
}

EmbedRequest read_embed_request(const Json& body, std::string_view url,
                                std::vector<std::string>& unknown) {
  LineFields fields(body);
  EmbedRequest request;
  request.ranking = url.empty() ? body.contains("query") : url == kRerankUrl;
  request.ranking ? read_ranking(fields, request) : read_vectors(fields, request);
  fields.read("model", request.model);
  fields.read_integer("dimensions", 1, kMostDimensions, request.dimensions);
  fields.ignore({"id", "custom_id", "method", "url", "body", "user"});
  for (std::string& name : fields.unknown()) unknown.push_back(std::move(name));
  return request;
}

}  // namespace skald
