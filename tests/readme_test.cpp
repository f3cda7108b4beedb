// The commands in README.md and in the manuals app/*/README.md work as they stand there. Every
// block that begins with ```sh is run, unless the line above says <!-- not run: REASON -->. The
// blocks of a file run one after the other in one folder, as a reader would type them.
#include <algorithm>
#include <sstream>

#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

struct Block {
  int line = 0;  // of its first command, counted from 1
  std::string commands;
};

std::vector<Block> runnable_blocks(const std::string& text) {
  std::vector<Block> blocks;
  std::istringstream lines(text);
  std::string line, above;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line == "```sh") {
      Block block{number + 1, ""};
      for (++number; std::getline(lines, line) && line != "```"; ++number) {
        block.commands += line + "\n";
      }
      if (!above.starts_with("<!-- not run: ")) blocks.push_back(block);
    }
    above = line;
  }
  return blocks;
}

std::vector<fs::path> manuals() {
  std::vector<fs::path> files{source_dir() / "README.md"};
  for (const auto& room : fs::directory_iterator(source_dir() / "app")) {
    if (fs::exists(room.path() / "README.md")) files.push_back(room.path() / "README.md");
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST_CASE("blocks of commands are found, and those marked as not run are left out") {
  const auto blocks = runnable_blocks(
      "text\n\n```sh\na\nb\n```\n<!-- not run: needs a GPU -->\n```sh\nc\n```\n```\nd\n```\n"
      "```sh\ne\n```\n");
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].commands == "a\nb\n");
  CHECK(blocks[0].line == 4);
  CHECK(blocks[1].commands == "e\n");
}

TEST_CASE("the commands of the READMEs run with the bundled model") {
  size_t count = 0;
  for (const fs::path& file : manuals()) {
    TempFolder folder;
    fs::create_directory(folder.path() / "bin");
    fs::create_symlink(built_program(), folder.path() / "bin" / "skald");
    for (const char* name : {"README.md", "models", "scripts", "tests"}) {
      fs::create_symlink(source_dir() / name, folder.path() / name);
    }
    for (const Block& block : runnable_blocks(read_file(file))) {
      const fs::path script = folder.write("block.sh", block.commands);
      const fs::path output = folder.path() / "block.out";
      const std::string in_folder = "cd '" + folder.path().string() +
                                    "' && env PATH=\"$PWD/bin:$PATH\" HOME=\"$PWD\" "
                                    "CUDA_VISIBLE_DEVICES= timeout 120 bash -euo pipefail '" +
                                    script.string() + "' > '" + output.string() +
                                    "' 2>&1 < /dev/null";
      INFO(file.string() << ":" << block.line << "\n" << block.commands);
      const int status = std::system(in_folder.c_str());
      INFO(read_file(output));
      CHECK(status == 0);
      ++count;
    }
  }
  CHECK(count > 10);
}

}  // namespace
}  // namespace skald::test
