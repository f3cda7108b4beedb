// Regular expressions of tokenizer files, executed by PCRE2. The files use Oniguruma's syntax and
// Unicode classes. Syntax that PCRE2 reads differently is rewritten; a construct that cannot be
// rewritten is an Error that names it. Memory and work of each match are bounded, because patterns
// come from untrusted files. Exceeding a bound is an Error(Exit::Model), as is a pattern that PCRE2
// refuses. A Regex is compiled once and may be used by any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

struct Span {
  uint32_t begin, end;  // byte offsets in a text
};

class Regex {
 public:
  // `source` is the file's name in messages.
  Regex(std::string_view pattern, const std::string& source);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  static Regex literal(std::string_view text, const std::string& source);

  // Working memory of one thread for searches; borrows the Regex.
  class Search {
   public:
    explicit Search(const Regex& regex);
    ~Search();
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;

    // Finds all matches from left to right. An empty match directly after the previous match is
    // skipped. `text` must be valid UTF-8 and shorter than 4 GB.
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

// Translates a pattern into PCRE2's syntax; for Regex and for tests.
std::string to_pcre2(std::string_view oniguruma, const std::string& source);

}  // namespace skald
