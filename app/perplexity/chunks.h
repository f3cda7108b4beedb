// Makes the chunks of a perplexity run, one at a time, with the token ids that the model sees. A
// chunk is one window of a text, or all windows of one document.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "app/perplexity/documents.h"
#include "app/perplexity/token_stream.h"
#include "engine/perplexity/protocol.h"
#include "engine/perplexity/windows.h"

namespace skald {

struct ChunkWindow {
  std::vector<int32_t> tokens;
  int64_t scored_from = 1;
  int64_t first = 0;  // position of the first token in the text, or in the document with its prefix
};

struct ChunkTokens {
  std::vector<ChunkWindow> windows;
  int64_t bytes = 0, words = 0;  // documents only

  int64_t scored() const;
};

class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  virtual int64_t count() const = 0;
  virtual ChunkTokens chunk(int64_t index) const = 0;
  virtual int64_t scored(int64_t index) const { return chunk(index).scored(); }
};

// The sources keep references to the text, documents and tokenizer, which must outlive them.
std::unique_ptr<ChunkSource> text_chunks(const PplSettings& settings, const TokenStream& text,
                                         std::optional<int32_t> bos);
std::unique_ptr<ChunkSource> document_chunks(const PplSettings& settings,
                                             const Documents& documents,
                                             const Tokenizer& tokenizer);
// Chunks of settings.context ids, which come from a base file.
std::unique_ptr<ChunkSource> id_chunks(const PplSettings& settings, std::vector<int32_t> ids,
                                       std::optional<int32_t> bos);

}  // namespace skald
