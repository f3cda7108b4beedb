#include "app/jobs/manifest.h"

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

TEST_CASE("a manifest records when a run began, and later how it ended") {
  TempFolder folder;
  const std::string output = (folder.path() / "out.jsonl").string();
  const auto written = [&] { return Json::parse(read_file(manifest_path(output))); };
  Manifest manifest(output, {{"model", "abc"}, {"temperature", 0.5}}, false);
  CHECK(!std::filesystem::exists(manifest_path(output)));
  manifest.begin({{"device", "cpu"}});
  CHECK(written()["runs"][0]["ended"].is_null());
  CHECK(written()["runs"][0]["device"] == "cpu");
  CHECK(written()["settings"]["temperature"] == 0.5);
  manifest.end(5, {{"done", 3}});
  CHECK(written()["runs"][0]["exit_code"] == 5);
  CHECK(written()["runs"][0]["counts"]["done"] == 3);
  CHECK(written()["runs"][0]["ended"].get<std::string>().size() == 20);

  Manifest next(output, {{"model", "abc"}, {"temperature", 0.5}}, true);
  next.begin({});
  CHECK(written()["runs"].size() == 2);
  CHECK(written()["runs"][0]["exit_code"] == 5);
}

TEST_CASE("resuming with other settings is refused, and the error names the difference") {
  TempFolder folder;
  const std::string output = (folder.path() / "out.jsonl").string();
  Manifest(output, {{"model", "abc"}, {"seed", 1}}, false).begin({});
  const std::string error = error_text(
      [&] {
        Manifest(output, {{"model", "xyz"}, {"seed", 1}}, true);
      },
      Exit::Usage);
  CHECK(has(error, "model \"xyz\", was \"abc\"; use them again"));
  CHECK(!has(error, "seed"));
}

TEST_CASE(
    "a file that is no manifest is refused and left unchanged; one without a checksum counts") {
  TempFolder folder;
  const std::string output = (folder.path() / "out.jsonl").string();
  for (const char* text : {"", "{", "[]", "{\"settings\":1,\"runs\":2}"}) {
    folder.write("out.jsonl.manifest.json", text);
    CHECK(has(error_text(
                  [&] {
                    Manifest(output, {{"seed", 1}}, true);
                  },
                  Exit::Failed),
              "out.jsonl.manifest.json: is no manifest of skald"));
    CHECK(read_file(manifest_path(output)) == text);
  }
  folder.write("out.jsonl.manifest.json", "{\"settings\":{\"seed\":1},\"runs\":[{\"old\":1}]}");
  Manifest(output, {{"seed", 1}}, true).begin({});
  CHECK(Json::parse(read_file(manifest_path(output)))["runs"].size() == 2);
}

}  // namespace
}  // namespace skald::test
