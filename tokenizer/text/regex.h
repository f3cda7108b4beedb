// Regular expressions of tokenizer files, by PCRE2. The files mean Oniguruma's syntax and Unicode
// classes; what PCRE2 reads differently is rewritten, and what cannot be is refused by name. A
// stranger's pattern gets bounded memory and bounded work for each match: running into a bound is
// an Error(Exit::Model), as are patterns that PCRE2 refuses. Compiled once, used by any number of
// threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

struct Span {
  uint32_t begin, end;  // bytes of a text
};

class Regex {
 public:
  Regex(std::string_view pattern, const std::string& source);  // source: for messages
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  static Regex literal(std::string_view text, const std::string& source);

  // One thread's working memory for searches; borrows the Regex.
  class Search {
   public:
    explicit Search(const Regex& regex);
    ~Search();
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;

    // All matches from left to right. An empty one counts except where the one before ended. text
    // is valid UTF-8, shorter than 4 GB.
    void find_all(std::string_view text, std::vector<Span>& matches);

   private:
    struct Memory;
    const Regex& regex_;
    std::unique_ptr<Memory> memory_;
  };

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// The pattern as PCRE2 has to read it; for Regex, and for tests.
std::string to_pcre2(std::string_view oniguruma, const std::string& source);

}  // namespace skald
