#include "app/terminal/table.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

namespace skald {
namespace {

// The columns of a text on a terminal: one for each UTF-8 character.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

bool is_number(const std::string& text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-');
}

std::vector<size_t> column_widths(const Table& table) {
  std::vector<size_t> widths;
  for (const std::string& title : table.header) widths.push_back(width(title));
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  return widths;
}

std::string padded(const std::string& text, size_t columns, bool right) {
  const std::string space(columns - width(text), ' ');
  return right ? space + text : text + space;
}

std::string shortened(int64_t number, double unit, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, static_cast<double>(number) / unit);
  return text;
}

}  // namespace

std::string to_text(const Table& table) {
  const std::vector<size_t> widths = column_widths(table);
  std::string out;
  auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t i = 0; i < cells.size(); ++i) {
      const bool right = !table.rows.empty() && is_number(table.rows.front()[i]);
      text += (i ? "  " : "") + padded(cells[i], widths[i], right);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line(table.header);
  for (const auto& row : table.rows) line(row);
  return out;
}

std::string to_markdown(const Table& table) {
  const std::vector<size_t> widths = column_widths(table);
  std::string out;
  auto line = [&](const std::vector<std::string>& cells) {
    out += "|";
    for (size_t i = 0; i < cells.size(); ++i) {
      const bool right = !table.rows.empty() && is_number(table.rows.front()[i]);
      out += " " + padded(cells[i], widths[i], right) + " |";
    }
    out += "\n";
  };
  line(table.header);
  out += "|";
  for (size_t i = 0; i < widths.size(); ++i) {
    const bool right = !table.rows.empty() && is_number(table.rows.front()[i]);
    out +=
        " " + std::string(std::max<size_t>(widths[i], 3) - right, '-') + (right ? ":" : "") + " |";
  }
  out += "\n";
  for (const auto& row : table.rows) line(row);
  return out;
}

std::string to_csv(const Table& table) {
  std::string out;
  auto line = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      std::string cell = cells[i];
      if (cell.find_first_of(",\"\n") != std::string::npos) {
        for (size_t at = 0; (at = cell.find('"', at)) != std::string::npos; at += 2) {
          cell.insert(at, "\"");
        }
        cell = "\"" + cell + "\"";
      }
      out += (i ? "," : "") + cell;
    }
    out += "\n";
  };
  line(table.header);
  for (const auto& row : table.rows) line(row);
  return out;
}

std::string count_text(int64_t number) {
  if (number < 1'000'000) return shortened(number, 1e3, "%.1f K");
  if (number < 1'000'000'000) return shortened(number, 1e6, "%.1f M");
  return shortened(number, 1e9, "%.2f B");
}

}  // namespace skald
