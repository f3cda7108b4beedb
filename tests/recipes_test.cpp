// README.md's table of what an addition costs is true: a weight format or a family is named in the
// promised files and nowhere else. A list by hand that another file keeps would fail here.
#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "engine/quant/dtype.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

std::string source(const std::string& path) { return read_file(source_dir() / path); }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

Names matches(const std::string& text, const std::string& pattern) {
  Names found;
  const std::regex regex(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

// Returns the code without comments and underscores, so that Q4_K is found in UnpackQ4K and
// q4_k_scale too.
std::string code_of(const fs::path& file) {
  std::string code;
  bool comment = false;
  for (const char c : read_file(file)) {
    if (c == '\n') comment = false;
    if (!comment && c != '_')
      code += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (code.ends_with("//")) comment = true;
  }
  return code;
}

// The files of the program whose code names the format.
Names files_that_name(std::string_view format) {
  std::string name = lower(format);
  name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
  Names files;
  for (const char* folder : {"app", "cuda", "engine", "models"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_dir() / folder)) {
      static const Names kSources{".h", ".cpp", ".cu", ".cuh", ".inc"};
      if (!kSources.count(entry.path().extension().string())) continue;
      if (code_of(entry.path()).find(name) == std::string::npos) continue;
      files.insert(fs::relative(entry.path(), source_dir()).string());
    }
  }
  return files;
}

// The row of README.md's table that begins so.
std::string cost(const std::string& begin) {
  const std::string readme = source("README.md");
  const size_t at = readme.find("| a [" + begin + "]");
  REQUIRE(at != std::string::npos);
  return readme.substr(at, readme.find('\n', at) - at);
}

TEST_CASE("every value of DType has its row in the table of formats") {
  std::string text = source("engine/quant/dtype_enum.h");
  text = text.substr(text.find("enum class DType"));
  text = text.substr(0, text.find("};"));
  Names rows;
  for (const DTypeInfo& format : all_dtypes()) rows.insert(std::string(format.name));
  CHECK(matches(text, "\\n  (\\w+),") == rows);
}

TEST_CASE("a weight format is named in the files that README.md promises, and nowhere else") {
  const std::string newest = lower(all_dtypes().back().name);
  Names promised;
  for (const std::string& file : matches(cost("weight format"), "`([\\w/.-]+\\.(?:h|cpp))`")) {
    promised.insert(std::regex_replace(file, std::regex("/x\\.h$"), "/" + newest + ".h"));
  }
  Names files = files_that_name(newest);
  files.erase("models/files/gguf.cpp");  // names every type of GGUF, for messages
  CHECK(files == promised);
}

TEST_CASE("README.md names every weight format") {
  const std::string readme = source("README.md");
  const std::string formats = readme.substr(readme.find("| weights | CPU | GPU"));
  for (const DTypeInfo& format : all_dtypes()) {
    CAPTURE(format.name);
    const std::regex name("\\b" + std::string(format.name) + "\\b");
    CHECK(std::regex_search(formats.substr(0, formats.find("\n\n")), name));
  }
}

TEST_CASE("no file but those of README.md's recipe lists the weight formats") {
  std::map<std::string, int> named;
  int formats = 0;
  for (const DTypeInfo& format : all_dtypes()) {
    if (format.block_elems == 1) continue;
    ++formats;
    for (const std::string& file : files_that_name(format.name)) ++named[file];
  }
  Names lists;
  for (const auto& [file, count] : named) {
    if (3 * count > 2 * formats) lists.insert(file);
  }
  Names promised = matches(cost("weight format"), "`([\\w/.-]+\\.(?:h|cpp))`");
  promised.erase("engine/quant/formats/x.h");
  // Has those with blocks of 256 weights; fast_unpack-inl.h has the others.
  for (Names* names : {&lists, &promised}) names->erase("engine/cpu/fast_unpack_k-inl.h");
  CHECK(lists == promised);
}

TEST_CASE("every family's file is in the list of families") {
  const Names listed = matches(source("models/families/list.inc"), "\nFAMILY\\((\\w+)\\)");
  Names defined;
  for (const auto& file : fs::directory_iterator(source_dir() / "models" / "families")) {
    if (file.path().extension() != ".cpp") continue;
    defined.merge(matches(read_file(file.path()), "\nconst Family k(\\w+) *="));
  }
  CHECK(listed.size() >= 13);
  CHECK(defined == listed);
}

TEST_CASE("every unpacking of the fast CPU kernels is in their table") {
  Names unpackers = matches(source("engine/cpu/fast_unpack-inl.h"), "struct (Unpack\\w+) \\{");
  unpackers.merge(matches(source("engine/cpu/fast_unpack_k-inl.h"), "struct (Unpack\\w+) \\{"));
  CHECK(matches(source("engine/cpu/fast_linear_int8.cpp"), "complete<(\\w+)>\\(\\)") == unpackers);
}

}  // namespace
}  // namespace skald::test
