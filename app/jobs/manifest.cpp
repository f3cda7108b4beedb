#include "app/jobs/manifest.h"

#include <ctime>
#include <filesystem>
#include <fstream>

#include "app/files/atomic_file.h"
#include "app/files/sealed_line.h"
#include "app/program/version.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/read_stream.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

// The manifest ends with a checksum of what it says, whatever white space it is printed with.
Json sealed(const Json& json) { return parse_json(sealed_line(dump(json))); }

// Manifests of versions before 0.2 have no checksum.
bool is_whole(const Json& json) {
  return json.is_object() && json.contains("settings") && json.contains("runs") &&
         json["settings"].is_object() && json["runs"].is_array() &&
         (!json.contains("checksum") || seal_fits(dump(json)));
}

// An earlier manifest, or null where there is none.
Json read_earlier(const std::string& path) {
  constexpr uintmax_t kMostBytes = 16 << 20;
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  if (error) return nullptr;
  std::ifstream in(path, std::ios::binary);
  Json json = bytes <= kMostBytes ? parse_json_or_null(rest_of(in)) : Json(nullptr);
  if (!is_whole(json)) {
    fail(Exit::Failed, printable(path),
         ": is no manifest of skald, or was damaged or edited since; remove it, and --resume goes "
         "on by the results alone");
  }
  return json;
}

// Returns the differences in words: "temperature 0.8, was 0.5; seed 1, was 0".
std::string differences(const Json& before, const Json& now) {
  std::string text;
  const auto add = [&](const std::string& key, const Json& old_value, const Json& new_value) {
    text += concat(text.empty() ? "" : "; ", key, " ", printable(dump(new_value), 80), ", was ",
                   printable(dump(old_value), 80));
  };
  for (const auto& [key, value] : now.items()) {
    const Json old_value = before.contains(key) ? before[key] : Json(nullptr);
    if (old_value != value) add(key, old_value, value);
  }
  for (const auto& [key, value] : before.items()) {
    if (!now.contains(key)) add(key, value, nullptr);
  }
  return text;
}

}  // namespace

std::string manifest_path(const std::string& output) { return output + ".manifest.json"; }

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Manifest::Manifest(const std::string& output, Json settings, bool resume)
    : path_(manifest_path(output)) {
  Json runs = Json::array();
  const Json earlier = resume ? read_earlier(path_) : Json(nullptr);
  if (earlier.is_object()) {
    const std::string changed = differences(earlier["settings"], settings);
    if (!changed.empty()) {
      fail(Exit::Usage, printable(output),
           ": --resume goes on with the same settings, but here: ", changed,
           "; use them again, or name another output");
    }
    runs = earlier["runs"];
  }
  json_ = {{"skald", version()}, {"settings", std::move(settings)}, {"runs", std::move(runs)}};
}

void Manifest::begin(const Json& run) {
  Json entry = {{"started", utc_now()}, {"ended", nullptr}, {"skald", version()}};
  if (run.is_object()) entry.update(run);
  json_["runs"].push_back(std::move(entry));
  write();
}

void Manifest::end(int exit_code, const Json& counts) {
  Json& run = json_["runs"].back();
  run["ended"] = utc_now();
  run["exit_code"] = exit_code;
  run["counts"] = counts;
  write();
}

void Manifest::write() const {
  AtomicFile file(path_, {.mode = 0666});
  file.write(dump(sealed(json_), 2));
  file.write("\n");
  file.commit();
}

}  // namespace skald
