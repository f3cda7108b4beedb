// A table of results, for people and for programs: aligned text, Markdown, CSV.
#pragma once

#include <string>
#include <vector>

namespace skald {

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // each as long as the header
};

std::string to_text(const Table& table);  // numbers to the right
std::string to_markdown(const Table& table);
std::string to_csv(const Table& table);  // RFC 4180

}  // namespace skald
