// A table of results, for people and for programs: aligned text, Markdown, CSV; and large numbers
// as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/size_text.h"

namespace skald {

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // each as long as the header
};

std::string to_text(const Table& table);  // numbers to the right
std::string to_markdown(const Table& table);
std::string to_csv(const Table& table);  // RFC 4180

std::string count_text(int64_t number);  // "852.7 K", "1.24 B"

}  // namespace skald
