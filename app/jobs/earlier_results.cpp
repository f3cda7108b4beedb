#include "app/jobs/earlier_results.h"

#include <algorithm>
#include <cstring>

#include "app/files/json.h"
#include "app/files/resume.h"
#include "app/files/sealed_line.h"
#include "engine/base/error.h"
#include "engine/base/sha256.h"

namespace skald {
namespace {

[[noreturn]] void fail_not_results(const OutputFile& output, int64_t line) {
  fail(Exit::Usage, output.name(), ": line ", line,
       " is no result of skald; --resume goes on with a file that skald wrote. If the line was "
       "damaged, remove it");
}

}  // namespace

std::optional<ResultName> result_name(std::string_view line) {
  const Json json = parse_json_or_null(line);
  if (!json.is_object()) return {};
  const auto id = json.contains("custom_id") ? json.find("custom_id") : json.find("id");
  const auto hash = json.find("request_hash");
  const bool named = id != json.end() && (id->is_string() || id->is_number_integer());
  if (!named || hash == json.end() || !hash->is_string()) return {};
  const auto error = json.find("error");
  const bool good = error == json.end() || error->is_null(), fits = seal_fits(line);
  return ResultName{.id = dump(*id),
                    .request_hash = hash->get<std::string>(),
                    .failed = !good || !fits,
                    .damaged = !fits && json.contains("checksum")};
}

NameHash name_hash(std::string_view name) {
  NameHash hash;
  const Sha256::Digest digest = Sha256().add(name).digest();
  std::memcpy(hash.data(), digest.data(), sizeof hash);
  return hash;
}

void EarlierResults::read(OutputFile& output) {
  const auto take = [&](const JsonlLine& line) {
    const std::optional<ResultName> name = result_name(line.text);
    if (!name) fail_not_results(output, line.number);
    if (name->damaged) {
      ++damaged_;
      outdated_ = true;
      return;
    }
    // No request has the empty hash, so a request that failed is done again.
    const Result result{name_hash(name->failed ? "" : name->request_hash), line.offset};
    const auto [there, added] = results_.emplace(name_hash(name->id), result);
    if (added) return;
    there->second = result;
    outdated_ = true;
  };
  continue_lines(output, take, [&](int64_t line) { fail_not_results(output, line); });
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
