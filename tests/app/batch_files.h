// A batch in a folder of its own: requests in, results out, by the built program.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "app/json.h"
#include "tests/app/models.h"
#include "tests/process.h"
#include "tests/temp_folder.h"

namespace skald::test {

inline std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

struct BatchFiles {
  explicit BatchFiles(const std::string& requests) { folder.write("in.jsonl", requests); }

  std::vector<std::string> arguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"batch", "-m", model, "-i", in, "-o", out, "-q"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Outcome run(const std::vector<std::string>& more = {}) const { return skald(arguments(more)); }
  std::string text() const { return read_file(out); }
  std::vector<Json> results() const { return json_lines(text()); }
  Json manifest() const { return Json::parse(read_file(out + ".manifest.json")); }

  TempFolder folder;
  std::string in = (folder.path() / "in.jsonl").string();
  std::string out = (folder.path() / "out.jsonl").string();
  std::string model = small_gguf();
};

}  // namespace skald::test
