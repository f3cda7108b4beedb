#include "app/perplexity/chunks.h"

#include "app/perplexity/text_cut.h"
#include "engine/base/error.h"

namespace skald {
namespace {

ChunkWindow window_at(const ChunkPlace& place) {
  ChunkWindow window;
  window.tokens.resize(static_cast<size_t>(place.length));
  window.scored_from = place.scored_from;
  window.first = place.first;
  return window;
}

class TextChunks final : public ChunkSource {
 public:
  TextChunks(const PplSettings& settings, const TokenStream& text, std::optional<int32_t> bos)
      : settings_(settings), text_(text), bos_(bos), count_(chunk_count(settings, text.count())) {}

  int64_t count() const override { return count_; }
  ChunkTokens chunk(int64_t index) const override {
    const ChunkPlace place = chunk_place(settings_, text_.count(), index);
    ChunkTokens chunk;
    ChunkWindow& window = chunk.windows.emplace_back(window_at(place));
    text_.read(place.first, window.tokens);
    if (place.bos_first && bos_) window.tokens.front() = *bos_;
    return chunk;
  }
  int64_t scored(int64_t index) const override {
    const ChunkPlace place = chunk_place(settings_, text_.count(), index);
    return place.length - place.scored_from;
  }

 private:
  PplSettings settings_;
  const TokenStream& text_;
  std::optional<int32_t> bos_;
  int64_t count_;
};

class DocumentChunks final : public ChunkSource {
 public:
  DocumentChunks(const PplSettings& settings, const Documents& documents,
                 const Tokenizer& tokenizer)
      : context_(settings.context), documents_(documents), tokenizer_(tokenizer) {
    const SpecialTokens& special = tokenizer.special();
    prefix_ = special.bos >= 0 ? special.bos : special.eos;
    if (prefix_ < 0) {
      fail(Exit::Failed,
           "the tokenizer has neither BOS nor EOS, which the doc protocol puts before each "
           "document; use another protocol");
    }
  }

  int64_t count() const override { return documents_.count(); }
  ChunkTokens chunk(int64_t index) const override {
    const std::string text = documents_.text(index);
    EncodeOptions options = inside_text();
    options.starts_text = true;
    std::vector<int32_t> ids = tokenizer_.encode(text, options);
    const int64_t count = std::ssize(ids);
    ids.insert(ids.begin(), prefix_);
    ChunkTokens chunk;
    chunk.bytes = std::ssize(text);
    chunk.words = count_words(text);
    for (int64_t w = 0; w < document_windows(context_, count); ++w) {
      const ChunkPlace place = document_window(context_, count, w);
      ChunkWindow& window = chunk.windows.emplace_back(window_at(place));
      window.tokens.assign(ids.begin() + place.first, ids.begin() + place.first + place.length);
    }
    return chunk;
  }

 private:
  int64_t context_;
  const Documents& documents_;
  const Tokenizer& tokenizer_;
  int32_t prefix_;
};

class IdChunks final : public ChunkSource {
 public:
  IdChunks(const PplSettings& settings, std::vector<int32_t> ids, std::optional<int32_t> bos)
      : settings_(settings), ids_(std::move(ids)), bos_(bos) {}

  int64_t count() const override { return std::ssize(ids_) / settings_.context; }
  ChunkTokens chunk(int64_t index) const override {
    const ChunkPlace place = chunk_place(settings_, std::ssize(ids_), index);
    ChunkTokens chunk;
    ChunkWindow& window = chunk.windows.emplace_back(window_at(place));
    window.tokens.assign(ids_.begin() + place.first, ids_.begin() + place.first + place.length);
    if (place.bos_first && bos_) window.tokens.front() = *bos_;
    return chunk;
  }

 private:
  PplSettings settings_;
  std::vector<int32_t> ids_;
  std::optional<int32_t> bos_;
};

}  // namespace

int64_t ChunkTokens::scored() const {
  int64_t count = 0;
  for (const ChunkWindow& window : windows) count += std::ssize(window.tokens) - window.scored_from;
  return count;
}

std::unique_ptr<ChunkSource> text_chunks(const PplSettings& settings, const TokenStream& text,
                                         std::optional<int32_t> bos) {
  return std::make_unique<TextChunks>(settings, text, bos);
}

std::unique_ptr<ChunkSource> document_chunks(const PplSettings& settings,
                                             const Documents& documents,
                                             const Tokenizer& tokenizer) {
  return std::make_unique<DocumentChunks>(settings, documents, tokenizer);
}

std::unique_ptr<ChunkSource> id_chunks(const PplSettings& settings, std::vector<int32_t> ids,
                                       std::optional<int32_t> bos) {
  return std::make_unique<IdChunks>(settings, std::move(ids), bos);
}

}  // namespace skald
