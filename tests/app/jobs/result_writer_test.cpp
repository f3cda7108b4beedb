#include "app/jobs/result_writer.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "app/files/sealed_line.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

std::string bare(const std::string& id, const std::string& hash = "h", int length = 5) {
  return concat("{\"id\":\"", id, "\",\"request_hash\":\"", hash, "\",\"text\":\"",
                std::string(static_cast<size_t>(length), 'x'),
                "\",\"finish_reason\":\"stop\",\"prompt_tokens\":1,\"completion_tokens\":1}");
}

std::string result(const std::string& id, const std::string& hash = "h", int length = 5) {
  return sealed_line(bare(id, hash, length));
}

std::string json(const std::string& id) { return "\"" + id + "\""; }

struct Output {
  TempFolder folder;
  std::string path = (folder.path() / "out.jsonl").string();

  std::string text() const { return read_file(path); }
  void set(const std::string& text) const { folder.write("out.jsonl", text); }
  ResultWriterOptions fresh() const { return {path}; }
  ResultWriterOptions resume() const { return {.path = path, .resume = true}; }
};

TEST_CASE("results are written in the order of the requests, or as they come") {
  Output out;
  {
    ResultWriter writer(out.fresh());
    writer.write(2, bare("c"));
    CHECK(out.text() == "");
    CHECK(writer.held_bytes() == static_cast<int64_t>(result("c").size()));
    writer.write(0, bare("a"));
    CHECK(out.text() == result("a") + "\n");
    writer.write(1, bare("b"));
    CHECK(writer.held_bytes() == 0);
    writer.finish();
  }
  CHECK(out.text() == result("a") + "\n" + result("b") + "\n" + result("c") + "\n");

  Output other;
  ResultWriter writer({.path = other.path, .in_order = false});
  writer.write(1, bare("b"));
  CHECK(other.text() == result("b") + "\n");
  writer.write(0, bare("a"));
  writer.finish();
  CHECK(other.text() == result("b") + "\n" + result("a") + "\n");
}

TEST_CASE("an existing output, even an empty one, is refused and left unchanged") {
  Output out;
  for (const std::string text : {"", "mine\n"}) {
    out.set(text);
    CHECK(has(error_text([&] { ResultWriter writer(out.fresh()); }, Exit::Usage),
              "is there already and is not overwritten; go on with it by --resume"));
    CHECK(out.text() == text);
  }
}

TEST_CASE("a second writer of the same file is refused") {
  Output out;
  ResultWriter first(out.resume());
  CHECK(has(error_text([&] { ResultWriter writer(out.resume()); }, Exit::Usage),
            "is named twice"));  // tests/app/files/claim_test.cpp has other processes
}

TEST_CASE(
    "with --resume finished results are kept, a torn last line is cut and the rest is appended") {
  const std::string a = result("a"), b = result("b"), c = result("c");
  for (size_t torn = 0; torn <= b.size(); ++torn) {
    Output out;
    out.set(a + "\n" + b.substr(0, torn));
    ResultWriter writer(out.resume());
    CHECK(out.text() == a + "\n");
    CHECK(writer.earlier() == 1);
    CHECK(writer.done_before(0, json("a"), "h"));
    CHECK(!writer.done_before(1, json("b"), "h"));
    CHECK(!writer.done_before(2, json("c"), "h"));
    writer.write(2, bare("c"));
    writer.write(1, bare("b"));
    writer.finish();
    CHECK(out.text() == a + "\n" + b + "\n" + c + "\n");
  }
  Output zeros;  // a machine that lost power may leave zeros
  zeros.set(a + "\n" + std::string(100, '\0'));
  ResultWriter writer(zeros.resume());
  CHECK(zeros.text() == a + "\n");
}

TEST_CASE("with --resume a missing output is created") {
  Output out;
  ResultWriter writer(out.resume());
  CHECK(writer.earlier() == 0);
  writer.write(0, bare("a"));
  writer.finish();
  CHECK(out.text() == result("a") + "\n");
}

TEST_CASE("a changed request is computed again, and finish() removes its old result") {
  for (const bool in_order : {true, false}) {
    Output out;
    out.set(result("a") + "\n" + result("b", "old", 100000) + "\n" + result("c") + "\n");
    ::chmod(out.path.c_str(), 0640);
    ResultWriter writer({.path = out.path, .resume = true, .in_order = in_order});
    CHECK(writer.done_before(0, json("a"), "h"));
    CHECK(!writer.done_before(1, json("b"), "h"));
    CHECK(writer.done_before(2, json("c"), "h"));
    writer.write(1, bare("b"));
    CHECK(has(out.text(), "\"old\""));
    writer.finish();
    const std::string a = result("a") + "\n", b = result("b") + "\n", c = result("c") + "\n";
    CHECK(out.text() == (in_order ? a + b + c : a + c + b));
    struct stat status = {};
    ::stat(out.path.c_str(), &status);
    CHECK((status.st_mode & 0777) == 0640);
    int files = 0;  // the output and its lock; no part is left behind
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(out.folder.path())) {
      ++files;
    }
    CHECK(files == 2);
  }
}

TEST_CASE("when an id stands twice in the output, as after a kill, the later result counts") {
  Output out;
  out.set(result("a", "old") + "\n" + result("b") + "\n" + result("a") + "\n");
  ResultWriter writer(out.resume());
  CHECK(writer.done_before(0, json("a"), "h"));
  CHECK(writer.done_before(1, json("b"), "h"));
  writer.finish();
  CHECK(out.text() == result("a") + "\n" + result("b") + "\n");
}

TEST_CASE(
    "a run that ends early writes the results it holds, and the next run puts them in order") {
  Output out;
  {
    ResultWriter writer(out.fresh());
    writer.write(0, bare("a"));
    writer.write(3, bare("d"));
    writer.write(2, bare("c", "h", 200000));
    writer.give_up();
  }
  CHECK(out.text() == result("a") + "\n" + result("c", "h", 200000) + "\n" + result("d") + "\n");
  ResultWriter writer(out.resume());
  CHECK(writer.done_before(0, json("a"), "h"));
  CHECK(!writer.done_before(1, json("b"), "h"));
  CHECK(writer.done_before(2, json("c"), "h"));
  CHECK(writer.done_before(3, json("d"), "h"));
  writer.write(1, bare("b"));
  writer.finish();
  CHECK(out.text() == result("a") + "\n" + result("b") + "\n" + result("c", "h", 200000) + "\n" +
                          result("d") + "\n");
}

TEST_CASE("results whose requests no longer exist move behind the others") {
  Output out;
  out.set(result("gone") + "\n" + result("b") + "\n" + result("a") + "\n");
  ResultWriter writer(out.resume());
  CHECK(writer.done_before(0, json("a"), "h"));
  CHECK(writer.done_before(1, json("b"), "h"));
  writer.finish();
  CHECK(out.text() == result("a") + "\n" + result("b") + "\n" + result("gone") + "\n");
}

TEST_CASE("a file without skald's results is refused and left unchanged") {
  Output out;
  for (const std::string text : {"hello\nworld\n", "hello", "{\"id\":\"a\"}\n", "[1]\n",
                                 "{\"id\":null,\"request_hash\":\"h\"}\n", "\n\nx"}) {
    CAPTURE(text);
    out.set(text);
    CHECK(has(error_text([&] { ResultWriter writer(out.resume()); }, Exit::Usage),
              "is no result of skald"));
    CHECK(out.text() == text);
  }
}

TEST_CASE("a result is identified by id and request hash, nested objects aside") {
  const auto name = result_name(
      "{\"id\":\"batch_req_1\",\"custom_id\":\"a\\u0041\",\"response\":{\"id\":[1,{\"x\":2}],"
      "\"request_hash\":\"no\"},\"request_hash\":\"yes\",\"error\":null}");
  REQUIRE(name);
  CHECK(name->id == "\"aA\"");
  CHECK(name->request_hash == "yes");
  CHECK(result_name("{\"id\":17,\"request_hash\":\"h\"}")->id == "17");
  CHECK(!result_name("{\"id\":1.5,\"request_hash\":\"h\"}"));
  CHECK(!result_name("{\"id\":\"a\",\"request_hash\":\"h\""));
}

TEST_CASE("a full disk leaves whole lines, and the error says so") {
  Output out;
  rlimit old = {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, SIG_IGN);
  {
    ResultWriter writer(out.fresh());
    writer.write(0, bare("a"));
    const rlimit small = {result("a").size() + 10, old.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const std::string error = error_text([&] { writer.write(1, bare("b")); }, Exit::Failed);
    ::setrlimit(RLIMIT_FSIZE, &old);
    CHECK(has(error, "out.jsonl: cannot be written: File too large; all lines before are whole"));
    CHECK(out.text() == result("a") + "\n");
  }
  ::signal(SIGXFSZ, SIG_DFL);
}

TEST_CASE("a missing folder, a device and stdout cannot be resumed") {
  Output out;
  CHECK(has(error_text([&] { ResultWriter writer({out.path + "/x/y"}); }, Exit::Failed),
            "cannot be written"));
  CHECK(has(
      error_text([&] { ResultWriter writer({.path = "/dev/null", .resume = true}); }, Exit::Usage),
      "is no file"));
  CHECK(has(error_text([&] { ResultWriter writer({.path = "-", .resume = true}); }, Exit::Usage),
            "stdout: is no file"));
  ResultWriter null({"/dev/null"});
  null.write(0, bare("a"));
  null.finish();
}

}  // namespace
}  // namespace skald::test
