#include "tokenizer/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

constexpr size_t kMostPatternBytes = 16 << 10;
constexpr uint32_t kMostSteps =
    200'000'000;  // for one match; a 10 MB run of spaces takes 20 million
constexpr uint32_t kMostHeapKiB = 256 << 10;
constexpr size_t kMostStackBytes = 16 << 20;
constexpr uint32_t kMostNested = 100;  // parentheses

// What is wrong with a pattern that PCRE2 does not compile. Offsets are left out: they count in the
// translated pattern.
std::string fault_of_pattern(int code) {
  switch (code) {
    case PCRE2_ERROR_MISSING_CLOSING_PARENTHESIS:
      return "has a '(' without its ')'";
    case PCRE2_ERROR_UNMATCHED_CLOSING_PARENTHESIS:
      return "has a ')' without its '('";
    case PCRE2_ERROR_MISSING_SQUARE_BRACKET:
      return "has a '[' without its ']'";
    case PCRE2_ERROR_QUANTIFIER_INVALID:
      return "repeats nothing: something must stand before '*', '+', '?' or '{'";
    case PCRE2_ERROR_QUANTIFIER_OUT_OF_ORDER:
    case PCRE2_ERROR_QUANTIFIER_TOO_BIG:
      return "has a repetition whose counts are too large or in the wrong order";
    case PCRE2_ERROR_CLASS_RANGE_ORDER:
      return "has a range of characters that ends before it begins";
    case PCRE2_ERROR_MALFORMED_UNICODE_PROPERTY:
    case PCRE2_ERROR_UNKNOWN_UNICODE_PROPERTY:
      return "has a \\p{...} with an unknown name";
    case PCRE2_ERROR_LOOKBEHIND_NOT_FIXED_LENGTH:
    case PCRE2_ERROR_LOOKBEHIND_TOO_COMPLICATED:
      return "looks back over a text of no fixed length, which skald does not support";
    case PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP:
      return concat("has more than ", kMostNested, " nested parentheses");
    case PCRE2_ERROR_PATTERN_TOO_LARGE:
    case PCRE2_ERROR_PATTERN_TOO_COMPLICATED:
    case PCRE2_ERROR_HEAP_FAILED:
      return "is too large once its repetitions are written out";
    default:
      return concat("has syntax that skald does not support (PCRE2's error ", code, ")");
  }
}

// Why a search ended without an answer.
std::string fault_of_search(int code) {
  switch (code) {
    case PCRE2_ERROR_MATCHLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
      return concat("it takes more than ", kMostSteps, " steps; shorten the text, or take a ",
                    "pattern without repetitions of repetitions");
    case PCRE2_ERROR_HEAPLIMIT:
    case PCRE2_ERROR_JIT_STACKLIMIT:
    case PCRE2_ERROR_NOMEMORY:
      return "it takes too much memory; shorten the text";
    default:
      return concat("it cannot be searched for (PCRE2's error ", code, ")");
  }
}

}  // namespace

struct Regex::Compiled {
  Compiled(std::string_view text, std::string_view as_written, uint32_t options,
           const std::string& file)
      : pattern(as_written), source(file) {
    if (text.size() > kMostPatternBytes) {
      fail(Exit::Model, source, ": a pattern has ", text.size(), " bytes (at most ",
           kMostPatternBytes, ")");
    }
    pcre2_compile_context* limits = pcre2_compile_context_create(nullptr);
    if (!limits) fail(Exit::Memory, "out of memory for a pattern");
    pcre2_set_parens_nest_limit(limits, kMostNested);
    pcre2_set_newline(limits, PCRE2_NEWLINE_LF);
    int error = 0;
    size_t where = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                         options | PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &where,
                         limits);
    pcre2_compile_context_free(limits);
    if (!code) {
      fail(Exit::Model, source, ": ", quoted(), " ", fault_of_pattern(error),
           "; expected a regular expression of Oniguruma");
    }
    // Without a JIT compiler matching is slower but equal
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  }
  ~Compiled() { pcre2_code_free(code); }

  std::string quoted() const { return concat("the pattern '", printable(pattern, 100), "'"); }

  std::string pattern, source;
  pcre2_code* code = nullptr;
};

Regex::Regex(std::string_view pattern, const std::string& source)
    : compiled_(std::make_unique<Compiled>(to_pcre2(pattern, source), pattern, PCRE2_MULTILINE,
                                           source)) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

Regex Regex::literal(std::string_view text, const std::string& source) {
  std::string quoted;
  for (const char c : text) {
    const bool plain = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    if (static_cast<uint8_t>(c) < 0x80 && !plain && !(c >= '0' && c <= '9')) quoted += '\\';
    quoted += c;
  }
  return Regex(quoted, source);
}

struct Regex::Search::Memory {
  explicit Memory(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    if (!data || !context) fail(Exit::Memory, "out of memory for a pattern's matches");
    pcre2_set_match_limit(context, kMostSteps);
    pcre2_set_heap_limit(context, kMostHeapKiB);
  }
  ~Memory() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Matching starts with PCRE2's own stack of 32 KB. A larger stack is created only if a match
  // needs it.
  bool add_stack() {
    if (stack) return false;
    stack = pcre2_jit_stack_create(64 << 10, kMostStackBytes, nullptr);
    pcre2_jit_stack_assign(context, nullptr, stack);
    return stack != nullptr;
  }

  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack = nullptr;
};

Regex::Search::Search(const Regex& regex)
    : regex_(regex), memory_(std::make_unique<Memory>(regex.compiled_->code)) {}
Regex::Search::~Search() = default;

void Regex::Search::find_all(std::string_view text, std::vector<Span>& matches) {
  matches.clear();
  const Compiled& compiled = *regex_.compiled_;
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(text.data());
  const size_t* found = pcre2_get_ovector_pointer(memory_->data);
  size_t from = 0;
  while (from <= text.size()) {
    const int code = pcre2_match(compiled.code, bytes, text.size(), from, PCRE2_NO_UTF_CHECK,
                                 memory_->data, memory_->context);
    if (code == PCRE2_ERROR_NOMATCH) return;
    if (code == PCRE2_ERROR_JIT_STACKLIMIT && memory_->add_stack()) continue;
    if (code < 0) {
      fail(Exit::Model, compiled.source, ": ", compiled.quoted(), " on a text of ", text.size(),
           " bytes: ", fault_of_search(code));
    }
    const Span match = {static_cast<uint32_t>(found[0]), static_cast<uint32_t>(found[1])};
    const bool empty = match.begin >= match.end;
    if (empty && !matches.empty() && matches.back().end == match.end) {
      from += from < text.size() ? utf8_length(text.substr(from)) : 1;
      continue;
    }
    matches.push_back(match);
    from = match.end;
  }
}

}  // namespace skald
