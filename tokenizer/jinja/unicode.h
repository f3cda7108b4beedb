// Python's methods of texts, on UTF-8: they count in characters, and know the spaces and cases of
// all scripts. Every text that comes in is valid UTF-8, and so is every one that goes out. Case is
// changed character by character; the one longer mapping is that of the German sharp s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace skald::jinja {

size_t characters(std::string_view s);
// Where character n begins; the size of s past the end.
size_t byte_of(std::string_view s, size_t n);
std::vector<std::string_view> split_characters(std::string_view s);
char32_t first_character(std::string_view s);  // of a text that is not empty
void append_character(std::string& s, char32_t c);

bool is_space(char32_t c);

// chars nullptr: spaces.
std::string_view strip_left(std::string_view s, const std::string* chars = nullptr);
std::string_view strip_right(std::string_view s, const std::string* chars = nullptr);
std::string_view strip(std::string_view s, const std::string* chars = nullptr);

// At separator, which is not empty; at runs of spaces when it is nullptr. most: of cuts; below 0
// all.
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
bool all_are(std::string_view s, CharacterClass what);  // false for an empty text
bool is_lower(std::string_view s);
bool is_upper(std::string_view s);

bool is_printable(char32_t c);  // repr() shows others by their number

}  // namespace skald::jinja
