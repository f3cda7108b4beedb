#include "app/files/resume.h"

#include <vector>

#include "engine/base/error.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

struct Resumed {
  std::vector<std::string> lines;
  std::string text, error;
};

// The lines read from a file, the text left in it, and the error, if there is one.
Resumed resume(const std::string& text) {
  TempFolder folder;
  const std::string path = folder.write("lines", text).string();
  Resumed resumed;
  {
    OutputFile output(path, Existing::Continue);
    const auto take = [&](const JsonlLine& line) { resumed.lines.push_back(line.text); };
    const auto refuse = [](int64_t number) { fail(Exit::Usage, "line ", number); };
    try {
      continue_lines(output, take, refuse);
    } catch (const Error& error) {
      resumed.error = error.what();
    }
  }
  resumed.text = read_file(path);
  return resumed;
}

TEST_CASE("lines without a newline at the end are torn, even if they look whole") {
  const Resumed torn = resume("{\"a\":1}\n{\"b\":2}\n{\"c\":3}");
  CHECK(torn.lines == std::vector<std::string>{"{\"a\":1}", "{\"b\":2}"});
  CHECK(torn.text == "{\"a\":1}\n{\"b\":2}\n");
  CHECK(torn.error == "");
  const Resumed whole = resume("{}\n\n");  // a blank line does not count, and stays in the file
  CHECK(whole.lines == std::vector<std::string>{"{}"});
  CHECK(whole.text == "{}\n\n");
  CHECK(resume("").lines.empty());
  CHECK(resume("{\"a\":").text == "");
  CHECK(resume("{}\n" + std::string(5000, '\0')).text == "{}\n");
}

TEST_CASE("a torn line of something else is refused, and the file stays as it is") {
  const Resumed resumed = resume("{}\nmine");
  CHECK(resumed.error == "line 2");
  CHECK(resumed.text == "{}\nmine");
}

}  // namespace
}  // namespace skald::test
