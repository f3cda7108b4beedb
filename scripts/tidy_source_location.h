// For clang-tidy 14 alone (scripts/tidy): that clang lacks the builtin behind libstdc++'s
// <source_location>.
#pragma once

#if defined(__clang__) && __clang_major__ < 15
#include <cstdint>
namespace std {
struct source_location {
  static constexpr source_location current(const char* file = __builtin_FILE(),
                                           const char* function = __builtin_FUNCTION(),
                                           unsigned line = __builtin_LINE()) noexcept {
    source_location here;
    here.file_ = file, here.function_ = function, here.line_ = line;
    return here;
  }
  constexpr const char* file_name() const noexcept { return file_; }
  constexpr const char* function_name() const noexcept { return function_; }
  constexpr uint_least32_t line() const noexcept { return line_; }
  constexpr uint_least32_t column() const noexcept { return 0; }

 private:
  const char *file_ = "", *function_ = "";
  unsigned line_ = 0;
};
}  // namespace std
#endif
