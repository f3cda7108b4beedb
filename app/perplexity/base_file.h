// Base files hold a base model's predictions for a text, row by row. Other models are compared with
// the file without running the base model again. There are two formats: llama.cpp's
// (llama_logits.cpp) and skald's compact one (compact_base.cpp).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/perplexity/record.h"

namespace skald {

// The comparison of a row with a stored row, which holds less than the whole distribution.
struct StoredComparison {
  RowComparison row;
  double slack = 0;  // the divergence is in [row.divergence, row.divergence + slack]
};

// Reads a base file. Rows are numbered from 0 over all scored tokens, in the order of the chunks.
class BaseReader {
 public:
  virtual ~BaseReader() = default;
  virtual std::string description() const = 0;  // "llama.cpp's _logits_, 16 bit"
  virtual int64_t vocab() const = 0;
  virtual int64_t first_chunk() const { return 0; }
  virtual int64_t chunks() const = 0;
  virtual StoredComparison compare(int64_t row, std::span<const float> logits, int32_t target) = 0;

  // The file's text: its ids in chunks of context() (llama.cpp), or its heading (compact).
  virtual std::span<const int32_t> ids() const { return {}; }
  virtual int64_t context() const { return 0; }
  virtual std::optional<PplHeading> heading() const { return {}; }
};

class BaseWriter {
 public:
  virtual ~BaseWriter() = default;
  virtual void write(std::span<const float> logits, int32_t target) = 0;
  virtual void finish() = 0;
};

// Returns nullptr if the path is no base file; it may be a model.
std::unique_ptr<BaseReader> open_base_file(const std::string& path);

struct BaseRange {
  int64_t first = 0, last = 0, vocab = 0;  // chunks [first, last)
};

// llama.cpp's format. `ids` holds whole chunks, from the text's first one on.
std::unique_ptr<BaseWriter> write_llama_logits(const std::string& path, int64_t context,
                                               int64_t vocab, std::span<const int32_t> ids);
// skald's format. Stores the `top` most probable tokens of each row.
std::unique_ptr<BaseWriter> write_compact_base(const std::string& path, const PplHeading& heading,
                                               const BaseRange& range, int top);

std::unique_ptr<BaseReader> read_llama_logits(const std::string& path);
inline constexpr std::string_view kCompactBase = "SKALDKL2";  // the first bytes of such a file
std::unique_ptr<BaseReader> read_compact_base(const std::string& path);

}  // namespace skald
