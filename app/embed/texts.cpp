#include "app/embed/texts.h"

#include "app/jobs/line.h"
#include "engine/base/error.h"

namespace skald {

std::vector<int32_t> embed_ids(const EmbedRequest& request, size_t index,
                               const Tokenizer* tokenizer, const EmbedChoice& choice) {
  const LineText& text = request.texts[index];
  if (text.is_ids) return text.ids;
  if (!tokenizer) fail_request("the model has no tokenizer: give texts as token ids");
  const std::string& prefix = !request.ranking ? choice.prefix
                              : index == 0     ? choice.query_prefix
                                               : choice.document_prefix;
  return tokenizer->encode(prefix + text.text);
}

void check_dimensions(const EmbedRequest& request, int64_t dim) {
  if (request.dimensions <= dim) return;
  fail_request(concat("field 'dimensions': the model's vectors have ", dim, " numbers, found ",
                      request.dimensions));
}

}  // namespace skald
