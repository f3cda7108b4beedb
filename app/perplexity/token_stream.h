// Gives access to the tokens of a text of any size. The constructor reads and tokenizes the text
// once, which gives the number of tokens and the text's SHA-256. At most about 64 MiB of ids are
// kept in memory; other parts are tokenized again when they are read.
//
// A text of more than kWholeTextBytes is tokenized in parts (text_cut.h). It is an Error if the
// tokenizer allows no cut, such as a SentencePiece model that drops blanks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "app/files/text_file.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

inline constexpr int64_t kWholeTextBytes = int64_t{32} << 20;

struct TokenStreamOptions {
  bool drop_last_newline = false;  // drop one newline at the end of the text
  bool add_bos = true;             // if the tokenizer adds BOS; false: never
  int64_t whole_bytes = kWholeTextBytes;
  int64_t part_bytes = int64_t{1} << 20;
};

class TokenStream {
 public:
  // `file` and `tokenizer` must outlive the stream. `progress` is called with the number of bytes
  // read so far; if it returns false, the constructor throws Error(Exit::Interrupted).
  TokenStream(const TextFile& file, const Tokenizer& tokenizer, const TokenStreamOptions& options,
              const std::function<bool(int64_t bytes)>& progress = {});

  int64_t count() const { return count_; }
  int64_t bytes() const { return file_->size(); }
  const std::string& sha256() const { return sha256_; }  // of all bytes of the file
  size_t parts() const { return parts_.size(); }

  // [first, first + tokens.size()) must lie in the text.
  void read(int64_t first, std::span<int32_t> tokens) const;

 private:
  struct Part {
    int64_t offset, bytes;  // in the file
    int64_t first;          // index of the first token
  };

  std::vector<int32_t> encode(std::string_view text, size_t part) const;
  void add_part(std::string_view text, int64_t offset);
  const std::vector<int32_t>& ids(size_t part) const;

  const TextFile* file_;
  const Tokenizer* tokenizer_;
  TokenStreamOptions options_;
  std::string sha256_;
  int64_t count_ = 0;
  std::vector<Part> parts_;
  mutable std::map<size_t, std::vector<int32_t>> part_ids_;  // token ids of some parts, by part
  mutable int64_t cached_ids_ = 0;                           // their number
};

}  // namespace skald
