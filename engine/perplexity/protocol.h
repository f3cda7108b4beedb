// The named protocols for measuring perplexity: which tokens a model sees, and which of them are
// scored. Results of different protocols, contexts or texts cannot be compared, so every result
// names them.
//
//   llama.cpp[:CTX]   As llama-perplexity: one newline at the end of the text is dropped. If the
//                     tokenizer adds BOS, BOS precedes the text and also replaces the first token
//                     of each chunk. Chunks of CTX tokens do not overlap; a shorter last chunk is
//                     dropped. The tokens from CTX/2 + 1 on are scored.
//   hf:CTX:STRIDE     The sliding window of Hugging Face's page on perplexity: windows of CTX
//                     tokens, each STRIDE tokens further, to the end of the text. Every token but
//                     the first is scored once, with as many tokens before it as fit.
//   gptq:CTX          As in the GPTQ paper: windows of CTX tokens do not overlap; a shorter last
//                     window is dropped. All tokens of a window but its first are scored.
//   doc[:CTX]         The rolling log-likelihood of lm-evaluation-harness, one score per document:
//                     BOS (or EOS), then the document's tokens, in windows that do not overlap. The
//                     last window is extended backwards to full length. Every token is scored.
#pragma once

#include <cstdint>
#include <string>

namespace skald {

enum class PplProtocol : uint8_t { LlamaCpp, HuggingFace, Gptq, Documents };

struct PplSettings {
  PplProtocol protocol = PplProtocol::LlamaCpp;
  int64_t context = 0;  // tokens of a window; 0: the protocol's or the model's own
  int64_t stride = 0;   // HuggingFace only

  std::string name() const;  // "hf:1024:512"
};

PplSettings parse_protocol(const std::string& text);  // throws Error(Exit::Usage)

// A range of chunks, [first, last).
struct ChunkRange {
  int64_t first = 0, last = 0;
};

// The place of a chunk in a text: tokens [first, first + length). Its tokens from index scored_from
// on are scored. bos_first: BOS replaces the first token if the tokenizer adds BOS.
struct ChunkPlace {
  int64_t first = 0, length = 0, scored_from = 1;
  bool bos_first = false;
};

// For a text of `tokens` tokens; not for Documents. chunk_count() throws Error(Exit::Failed) if the
// text has fewer tokens than fewest_tokens(); the message names that number.
int64_t chunk_count(const PplSettings& settings, int64_t tokens);
ChunkPlace chunk_place(const PplSettings& settings, int64_t tokens, int64_t chunk);
int64_t fewest_tokens(const PplSettings& settings);

// The windows of a document of `tokens` tokens. Token 0 is the prefix token (BOS or EOS), so
// document token i has index i + 1. `first` and scored_from have the same meaning as for chunks.
int64_t document_windows(int64_t context, int64_t tokens);
ChunkPlace document_window(int64_t context, int64_t tokens, int64_t window);

}  // namespace skald
