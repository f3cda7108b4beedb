// The named ways to measure perplexity: which tokens a model sees, and which of them are scored.
// Numbers of different protocols, contexts or texts cannot be compared; so every result says them.
//
//   llama.cpp[:CTX]   As llama-perplexity. One newline at the text's end is dropped; BOS goes
//                     before the text where the tokenizer adds one, and in place of each chunk's
//                     first token; disjoint chunks of CTX, the rest is dropped; the tokens from
//                     CTX/2 + 1 on are scored.
//   hf:CTX:STRIDE     The sliding window of Hugging Face's page on perplexity: windows of CTX,
//                     each STRIDE further, to the text's end; every token but the first is scored
//                     once, with as much before it as fits.
//   gptq:CTX          The papers' way: disjoint windows of CTX, the rest is dropped; all tokens of
//                     a window but its first are scored.
//   doc[:CTX]         lm-evaluation-harness' rolling log-likelihood, one score a document: BOS (or
//                     EOS) and then the document's tokens, in disjoint windows; the last one
//                     reaches back so that it is full; every token is scored.
#pragma once

#include <cstdint>
#include <string>

namespace skald {

enum class PplProtocol : uint8_t { LlamaCpp, HuggingFace, Gptq, Documents };

struct PplSettings {
  PplProtocol protocol = PplProtocol::LlamaCpp;
  int64_t context = 0;  // of a window, in tokens; 0: the protocol's or the model's own
  int64_t stride = 0;   // of HuggingFace

  std::string name() const;  // "hf:1024:512"
};

PplSettings parse_protocol(const std::string& text);  // throws Error(Exit::Usage)

// Chunks [first, last).
struct ChunkRange {
  int64_t first = 0, last = 0;
};

// A chunk of a text: tokens [first, first + length) of it, of which those from scored_from on are
// scored. bos_first: BOS takes the first one's place, where the tokenizer adds BOS.
struct ChunkPlace {
  int64_t first = 0, length = 0, scored_from = 1;
  bool bos_first = false;
};

// Of a text of `tokens` tokens; not for Documents. count throws Error(Exit::Failed), which says how
// many tokens are needed, where the text has too few.
int64_t chunk_count(const PplSettings& settings, int64_t tokens);
ChunkPlace chunk_place(const PplSettings& settings, int64_t tokens, int64_t chunk);
int64_t fewest_tokens(const PplSettings& settings);

// A document's windows: [first, last) of its tokens with the prefix token before them, as
// documents_window() counts: token 0 is the prefix. Scored are those from `first` + scored_from.
int64_t document_windows(int64_t context, int64_t tokens);
ChunkPlace document_window(int64_t context, int64_t tokens, int64_t window);

}  // namespace skald
