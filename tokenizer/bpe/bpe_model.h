// The BPE step of a tokenizer: converts one pre-tokenized part of a text to ids. Immutable once
// made; an Encoder is the working memory of one thread.
#pragma once

#include <bitset>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/text/merges.h"

namespace skald {

class BpeModel {
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

 public:
  // `ids` maps pieces to ids, for pieces that text may become. control[id]: never produced from
  // text.
  BpeModel(const BpeVocabulary& vocabulary,
           const std::unordered_map<std::string_view, int32_t>& ids,
           const std::vector<bool>& control);

  class Encoder {
   public:
    explicit Encoder(const BpeModel& model) : model_(model), merger_(model.merges_) {}
    void append(std::string_view part, std::vector<int32_t>& ids);

   private:
    struct CachedWord {
      size_t begin, count;  // range of cached_ids_
    };
    void append_word(std::string_view word, std::vector<int32_t>& ids);

    const BpeModel& model_;
    Merger merger_;
    std::vector<int32_t> tokens_;
    // A cache of words, because words repeat often.
    std::unordered_map<std::string, CachedWord, Hash, std::equal_to<>> cached_words_;
    std::vector<int32_t> cached_ids_;
  };

 private:
  void add_merges(const BpeVocabulary& vocabulary,
                  const std::unordered_map<std::string_view, int32_t>& ids,
                  const std::vector<bool>& control);
  void symbols(std::string_view word, std::vector<int32_t>& tokens) const;
  void byte_symbols(std::string_view word, std::vector<int32_t>& tokens) const;
  void character_symbols(std::string_view word, std::vector<int32_t>& tokens) const;
  size_t first_word(std::string_view part) const;

  // A hashed set of character pairs that are neighbours in some merge; hash collisions only add
  // pairs.
  static constexpr size_t kSeams = size_t{1} << 18;
  static size_t seam(char32_t left, char32_t right) {
    return (left * 0x9E3779B1u ^ right * 0x85EBCA6Bu) >> 14;
  }

  bool byte_level_, byte_fallback_, fuse_unk_;
  int32_t unk_;
  std::vector<int32_t> byte_ids_;  // id of each byte; -1: none
  std::unordered_map<char32_t, int32_t> character_ids_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>>
      whole_;  // by bytes of text; only with ignore_merges
  Merges merges_;
  // true: a part may be cut into words at places that no merge can cross. This keeps long texts
  // fast if the tokenizer has no rules for white space.
  bool has_seams_ = false;
  std::unique_ptr<std::bitset<kSeams>> joined_;
};

}  // namespace skald
