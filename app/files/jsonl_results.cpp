#include "app/files/jsonl_results.h"

#include <algorithm>
#include <cstring>

#include "app/files/json.h"
#include "app/files/jsonl_reader.h"
#include "app/files/signals.h"
#include "engine/base/error.h"
#include "engine/base/sha256.h"

namespace skald {
namespace {

// Results may be longer than requests: many samples, log-probabilities.
constexpr JsonlLimits kResultLimits{.line = size_t{1} << 30, .kept = 0};

[[noreturn]] void fail_not_results(const JsonlOutput& output, int64_t line) {
  fail(Exit::Usage, output.name(), ": line ", line,
       " is no result of skald; --resume goes on with a file that skald wrote");
}

// Where whole lines end. What is behind is the beginning of a result, or an Error.
int64_t whole_bytes(const JsonlOutput& output) {
  constexpr int64_t kStep = 1 << 16;
  int64_t end = output.bytes();
  while (end > 0) {
    const int64_t start = std::max<int64_t>(end - kStep, 0);
    const size_t newline = output.read(start, end - start).rfind('\n');
    if (newline != std::string::npos) return start + static_cast<int64_t>(newline) + 1;
    end = start;
  }
  return 0;
}

}  // namespace

std::optional<ResultName> result_name(std::string_view line) {
  // Of what lies deeper only that it is there.
  const auto top_level_only = [](int depth, Json::parse_event_t, Json&) { return depth <= 1; };
  const Json json = Json::parse(line, top_level_only, false);
  if (!json.is_object()) return {};
  const auto id = json.contains("custom_id") ? json.find("custom_id") : json.find("id");
  const auto hash = json.find("request_hash");
  const bool named = id != json.end() && (id->is_string() || id->is_number_integer());
  if (!named || hash == json.end() || !hash->is_string()) return {};
  const auto error = json.find("error");
  return ResultName{dump(*id), hash->get<std::string>(), error != json.end() && !error->is_null()};
}

NameHash name_hash(std::string_view name) {
  NameHash hash;
  const Sha256::Digest digest = Sha256().add(name).digest();
  std::memcpy(hash.data(), digest.data(), sizeof hash);
  return hash;
}

void EarlierResults::read(JsonlOutput& output) {
  const int64_t whole = whole_bytes(output);
  JsonlReader reader(output.path(), {}, kResultLimits);
  JsonlLine line;
  while (reader.next(line) && line.offset < whole) {
    const std::optional<ResultName> name = result_name(line.text);
    if (!name) fail_not_results(output, line.number);
    // No request has the empty hash: one that failed is done again.
    const Result result{name_hash(name->failed ? "" : name->request_hash), line.offset};
    const auto [there, added] = results_.emplace(name_hash(name->id), result);
    if (added) continue;
    there->second = result;
    outdated_ = true;
  }
  if (interrupted_by()) {
    fail(static_cast<Exit>(128 + interrupted_by()), "interrupted while reading ", output.name());
  }
  if (whole == output.bytes()) return;
  // Some file systems leave zeros where a machine went down.
  const std::string begin = output.read(whole, 1);
  if (begin != "{" && begin != std::string(1, '\0')) fail_not_results(output, line.number);
  output.truncate(whole);
}

bool EarlierResults::take(int64_t turn, std::string_view id, std::string_view request_hash) {
  const auto found = results_.find(name_hash(id));
  if (found == results_.end() || found->second.turn >= 0) return false;
  if (found->second.request == name_hash(request_hash)) {
    found->second.turn = turn;
    return true;
  }
  results_.erase(found);
  outdated_ = true;
  return false;
}

std::vector<EarlierResults::Place> EarlierResults::taken() const {
  std::vector<Place> places;
  for (const auto& [name, result] : results_) {
    if (result.turn >= 0) places.push_back({result.turn, result.offset});
  }
  return places;
}

std::vector<int64_t> EarlierResults::not_asked_for() const {
  std::vector<int64_t> offsets;
  for (const auto& [name, result] : results_) {
    if (result.turn < 0) offsets.push_back(result.offset);
  }
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

}  // namespace skald
