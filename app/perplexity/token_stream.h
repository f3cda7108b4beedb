// The tokens of a text of any size, in the order of the text and as often as they are asked for.
// The text is read and tokenized once from start to end, which gives the number of tokens and the
// text's SHA-256; of a long one not all ids are kept, and parts are tokenized again as they are
// needed. Memory: some 64 MiB of ids, whatever the text's length.
//
// A text of more than kWholeTextBytes is tokenized in parts (text_cut.h); one of a tokenizer that
// allows no cut (SentencePiece that drops blanks, for instance) may have as much as the tokenizer
// takes at once.
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
  bool drop_last_newline = false;  // one, if the text ends with it
  bool add_bos = true;             // where the tokenizer does
  int64_t whole_bytes = kWholeTextBytes;
  int64_t part_bytes = int64_t{1} << 20;
};

class TokenStream {
 public:
  // Borrows both. `progress` is called with the bytes that were read; false stops with an Error.
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
    int64_t first;          // token
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
  mutable std::map<size_t, std::vector<int32_t>> kept_;  // by part
  mutable int64_t kept_ids_ = 0;
};

}  // namespace skald
