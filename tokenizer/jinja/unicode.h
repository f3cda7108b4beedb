// Python's string methods on UTF-8. They count characters, and know the spaces and letter cases of
// all scripts. All inputs and results are valid UTF-8. Case is changed character by character; the
// only mapping to several characters is that of the German sharp s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace skald::jinja {

size_t characters(std::string_view s);
// The byte offset of character n; the size of s if n is past the end.
size_t byte_of(std::string_view s, size_t n);
std::vector<std::string_view> split_characters(std::string_view s);
char32_t first_character(std::string_view s);  // s must not be empty
void append_character(std::string& s, char32_t c);

bool is_space(char32_t c);

// chars == nullptr: strips spaces.
std::string_view strip_left(std::string_view s, const std::string* chars = nullptr);
std::string_view strip_right(std::string_view s, const std::string* chars = nullptr);
std::string_view strip(std::string_view s, const std::string* chars = nullptr);

// Splits at `separator`, which is not empty; nullptr: at runs of spaces. `most` is the maximum
// number of cuts; below 0: no limit.
std::vector<std::string_view> split(std::string_view s, const std::string* separator, int64_t most);
std::vector<std::string_view> split_from_right(std::string_view s, const std::string* separator,
                                               int64_t most);
std::vector<std::string_view> split_lines(std::string_view s, bool keep_ends = false);

std::string lower(std::string_view s);
std::string upper(std::string_view s);
std::string capitalize(std::string_view s);
std::string title(std::string_view s);
std::string swap_case(std::string_view s);

enum class CharacterClass { Alpha, Digit, Alnum, Space };
bool all_are(std::string_view s, CharacterClass what);  // false for an empty string
bool is_lower(std::string_view s);
bool is_upper(std::string_view s);

bool is_printable(char32_t c);  // repr() shows other characters by their number

}  // namespace skald::jinja
