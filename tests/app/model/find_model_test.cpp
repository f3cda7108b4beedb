#include "app/model/find_model.h"

#include <unistd.h>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/process.h"
#include "tests/small_models.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

// Folders with models, and the ModelPlaces that an environment would name.
struct ModelFolders {
  TempFolder folder;
  ModelPlaces places;

  ModelFolders() {
    const fs::path root = folder.path();
    places.folders = {root / "first", root / "second"};
    places.hub = root / "hub";
    places.own = root / "own";
    put_file(root / "first/story.gguf", "1");
    put_file(root / "second/story.gguf", "2");
    put_file(root / "second/fable/config.json", "{}");
    put_file(root / "own/tale.gguf", "own");
    put_file(root / "own/story.gguf", "own");
    hub("acme/llama-1b", "aaa", "config.json");
    hub("acme/llama-1b", "bbb", "config.json");
    put_file(root / "hub/models--acme--llama-1b/refs/main", "bbb");
    put_file(root / "hub/models--acme--llama-1b/refs/v1", "aaa\n");
    hub("acme/twin", "aaa", "x.gguf");
    hub("other/twin", "aaa", "x.gguf");
    hub("acme/no-ref", "old", "y.gguf");
    hub("gpt2", "aaa", "config.json");
    put_file(root / "hub/datasets--acme--llama-data/refs/main", "x");
    put_file(root / "hub/models--acme--empty/refs/main", "zzz");
  }

  void hub(std::string name, const std::string& commit, const std::string& file) const {
    const size_t slash = name.find('/');
    if (slash != std::string::npos) name.replace(slash, 1, "--");
    put_file(places.hub / ("models--" + name) / "snapshots" / commit / file, "{}");
  }

  // The path found, relative to the root; "" where nothing is found.
  std::string find(const std::string& name) const {
    const auto found = find_by_name(name, places);
    return found ? fs::relative(*found, folder.path()).string() : "";
  }
};

TEST_CASE("a model's name is searched in each place in turn, and the first match counts") {
  const ModelFolders folders;
  CHECK(folders.find("story") == "first/story.gguf");
  CHECK(folders.find("story.gguf") == "first/story.gguf");
  CHECK(folders.find("fable") == "second/fable");
  CHECK(folders.find("tale") == "own/tale.gguf");
  CHECK(folders.find("nothing") == "");
  CHECK(folders.find("") == "");
}

TEST_CASE("a name in Hugging Face's cache is found with or without its owner") {
  const ModelFolders folders;
  const std::string llama = "hub/models--acme--llama-1b/snapshots/";
  CHECK(folders.find("acme/llama-1b") == llama + "bbb");
  CHECK(folders.find("llama-1b") == llama + "bbb");
  CHECK(folders.find("acme/llama-1b@v1") == llama + "aaa");
  CHECK(folders.find("llama-1b@aaa") == llama + "aaa");
  CHECK(folders.find("llama-1b@none") == "");
  CHECK(folders.find("acme/llama-1b/config.json") == llama + "bbb/config.json");
  CHECK(folders.find("acme/llama-1b@v1/config.json") == llama + "aaa/config.json");
  CHECK(folders.find("acme/llama-1b/none.gguf") == "");
  CHECK(folders.find("acme/no-ref") == "hub/models--acme--no-ref/snapshots/old/y.gguf");
  CHECK(folders.find("gpt2") == "hub/models--gpt2/snapshots/aaa");
  CHECK(folders.find("acme/empty") == "");
  CHECK(folders.find("llama-data") == "");
  CHECK(folders.find("other/llama-1b") == "");
}

TEST_CASE("a name that two owners use is an error that names both") {
  const ModelFolders folders;
  CHECK(folders.find("acme/twin") == "hub/models--acme--twin/snapshots/aaa/x.gguf");
  const std::string text = error_text([&] { folders.find("twin"); });
  CHECK(has(text, "twin: several models have this name: acme/twin, other/twin"));
}

TEST_CASE("a name never leads out of the searched folders") {
  const ModelFolders folders;
  put_file(folders.folder.path() / "secret.gguf", "x");
  put_file(folders.folder.path() / "hub/models--acme--evil/refs/main", "../../../..");
  for (const char* name :
       {"../secret", "../secret.gguf", "first/../../secret", "/secret", "./story", "acme/evil",
        "acme/llama-1b@..", "acme/llama-1b@../../../..", "acme/llama-1b/../../x"}) {
    CAPTURE(name);
    CHECK(folders.find(name) == "");
  }
}

TEST_CASE("the names of all places are listed once each") {
  const ModelFolders folders;
  const std::vector<std::string> names = model_names(folders.places);
  for (const char* name : {"acme/llama-1b", "fable", "gpt2", "story", "tale"}) {
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
}

Outcome in_folders(const ModelFolders& folders, std::vector<std::string> arguments) {
  Invocation invocation{std::move(arguments), ""};
  invocation.environment = {{"SKALD_MODELS", folders.places.folders[1].string()},
                            {"HF_HUB_CACHE", folders.places.hub.string()},
                            {"XDG_CACHE_HOME", folders.folder.path().string()}};
  return run_program(invocation);
}

TEST_CASE("commands accept a model's name instead of a path") {
  const ModelFolders folders;
  fs::copy_file(small_gguf(), folders.folder.path() / "second/small.gguf");
  const std::string text = skald({"run", "-m", small_gguf(), "Hi", "-n", "5", "--temp", "0"}).out;
  CHECK(text != "");
  const auto out = [&](std::vector<std::string> arguments) {
    const Outcome outcome = in_folders(folders, std::move(arguments));
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    return outcome.out;
  };
  CHECK(out({"run", "-m", "small", "Hi", "-n", "5", "--temp", "0"}) == text);
  CHECK(out({"run", "small", "Hi", "-n", "5", "--temp", "0"}) == text);
  CHECK(out({"run", "small", "-p", "Hi", "-n", "5", "--temp", "0"}) == text);
  // After -m, "small" is the prompt.
  CHECK(out({"run", "-m", small_gguf(), "small", "-n", "0", "--echo"}) == "small");
  CHECK(has(out({"inspect", "small"}), "small.gguf"));
  CHECK(out({"tokenize", "small", "Hi"}) == skald({"tokenize", small_gguf(), "Hi"}).out);
  CHECK(has(out({"completion", "models"}), "acme/llama-1b\n"));
}

TEST_CASE("for an unknown model, the error lists the searched places and the nearest name") {
  const ModelFolders folders;
  const Outcome outcome = in_folders(folders, {"run", "-m", "acme/lama-1b", "Hi"});
  CHECK(outcome.code == 3);
  CHECK(has(outcome.err,
            "acme/lama-1b: there is no such file or folder, and no model of that name "
            "in $SKALD_MODELS, in "));
  CHECK(has(outcome.err, folders.places.hub.string()));
  CHECK(has(outcome.err, "did you mean 'acme/llama-1b'?"));
  CHECK(has(in_folders(folders, {"run", "-m", "./x", "Hi"}).err, "./x: there is no such file"));
  CHECK(in_folders(folders, {"tokenize", "nowhere", "Hi"}).code == 3);
}

TEST_CASE("the cache folders follow the environment, else lie below the home folder") {
  TempFolder home;
  put_file(home.path() / ".cache/skald/mine.gguf", "x");
  put_file(home.path() / ".cache/huggingface/hub/models--a--b/snapshots/1/config.json", "{}");
  const auto names = [&](std::vector<std::pair<std::string, std::string>> environment) {
    Invocation invocation{{"completion", "models"}, ""};
    invocation.environment = std::move(environment);
    return run_program(invocation).out;
  };
  const std::string path = home.path().string();
  CHECK(has(names({{"HOME", path}}), "a/b\nmine\n"));
  CHECK(has(names({{"XDG_CACHE_HOME", path + "/.cache"}}), "a/b\nmine\n"));
  CHECK(has(names({{"HF_HOME", path + "/.cache/huggingface"}}), "a/b\n"));
  CHECK(!has(names({{"HF_HOME", path + "/.cache/huggingface"}}), "mine"));
}

}  // namespace
}  // namespace skald::test
