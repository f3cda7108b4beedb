#include "models/files/hf_config.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/read_stream.h"
#include "tokenizer/text/json_problem.h"
#include "tokenizer/text/without_nul.h"

namespace skald {

namespace {

// Limit on the file. Configurations have a few kilobytes.
constexpr uintmax_t kMostBytes = 16 << 20;
constexpr int kMostDepth = 64;

// A value for a message, shortened to one line.
std::string shown(const nlohmann::json& value) { return printable(value.dump(), 80); }

bool fits_int64(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= INT64_MAX;
  if (value.is_number_float()) return std::fabs(value.get<double>()) < 0x1p63;
  return value.is_number_integer();
}

// Python writes infinities, which JSON has no words for. They become the largest numbers.
std::string without_infinities(std::string_view text) {
  struct Word {
    std::string_view python, json;
  };
  constexpr Word kWords[] = {{"-Infinity", "-3e38"}, {"Infinity", "3e38"}};
  std::string result;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto word = std::find_if(std::begin(kWords), std::end(kWords), [&](const Word& w) {
      return !in_string && text.substr(at).starts_with(w.python);
    });
    if (word != std::end(kWords)) {
      result += word->json;
      at += word->python.size() - 1;
      continue;
    }
    if (text[at] == '"') in_string = !in_string;
    result += text[at];
    if (in_string && text[at] == '\\' && at + 1 < text.size()) result += text[++at];
  }
  return result;
}

}  // namespace

struct HfConfig::Json {
  nlohmann::json value;
};

HfConfig::HfConfig(std::shared_ptr<const Json> json, std::string where)
    : json_(std::move(json)), where_(std::move(where)) {}

HfConfig HfConfig::read(const std::filesystem::path& file) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(file, error);
  if (error) fail(Exit::Model, file.string(), ": cannot be read: ", error.message());
  if (size > kMostBytes) {
    fail(Exit::Model, file.string(), ": is ", size, " bytes; expected a configuration of at most ",
         kMostBytes, " bytes");
  }
  std::ifstream in(file, std::ios::binary);
  const std::string text = rest_of(in);
  if (!in.is_open() || in.bad()) {
    fail(Exit::Model, file.string(), ": cannot be read: ", std::strerror(errno));
  }
  return parse(text, file.string());
}

HfConfig HfConfig::parse(const std::string& text, const std::string& where) {
  auto json = std::make_shared<Json>();
  try {
    const auto limit_depth = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
      if (depth > kMostDepth) fail(Exit::Model, "it is nested too deeply");
      return true;
    };
    std::string changed;
    json->value =
        nlohmann::json::parse(without_infinities(without_nul(text, changed)), limit_depth);
  } catch (const Error& problem) {
    fail(Exit::Model, where, ": is not valid JSON: ", problem.what());
  } catch (const nlohmann::json::exception&) {
    fail(Exit::Model, where, ": is not valid JSON: ", json_problem(text));
  }
  if (!json->value.is_object()) fail(Exit::Model, where, ": is not a JSON object");
  return HfConfig(std::move(json), where);
}

bool HfConfig::mentions(std::string_view key) const { return json_->value.contains(key); }

bool HfConfig::has(std::string_view key) const {
  const auto found = json_->value.find(key);
  return found != json_->value.end() && !found->is_null();
}

bool HfConfig::says_nothing(std::string_view key) const {
  if (!has(key)) return true;
  const nlohmann::json& value = *json_->value.find(key);
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_number() ? value == 0 : value.is_string() ? value == "" : value.empty();
}

bool HfConfig::is_object(std::string_view key) const {
  return has(key) && json_->value.find(key)->is_object();
}

bool HfConfig::is_text(std::string_view key) const {
  return has(key) && json_->value.find(key)->is_string();
}

int64_t HfConfig::integer(std::string_view key, int64_t least, int64_t most) const {
  if (!has(key)) fail(Exit::Model, where_, ": '", key, "' is missing (expected a whole number)");
  const nlohmann::json& value = *json_->value.find(key);
  const bool whole = value.is_number_integer() ||
                     (value.is_number_float() && value == std::floor(value.get<double>()));
  const bool good =
      whole && fits_int64(value) && value.get<int64_t>() >= least && value.get<int64_t>() <= most;
  if (!good) {
    fail(Exit::Model, where_, ": '", key, "' is ", shown(value), ", expected a whole number from ",
         least, " to ", most);
  }
  return value.get<int64_t>();
}

int64_t HfConfig::integer_or(std::string_view key, int64_t otherwise, int64_t least,
                             int64_t most) const {
  return has(key) ? integer(key, least, most) : otherwise;
}

double HfConfig::number(std::string_view key) const {
  if (!has(key)) fail(Exit::Model, where_, ": '", key, "' is missing (expected a number)");
  const nlohmann::json& value = *json_->value.find(key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    fail(Exit::Model, where_, ": '", key, "' is ", shown(value), ", expected a number");
  }
  return value.get<double>();
}

double HfConfig::number_or(std::string_view key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

bool HfConfig::boolean_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const nlohmann::json& value = *json_->value.find(key);
  if (!value.is_boolean()) {
    fail(Exit::Model, where_, ": '", key, "' is ", shown(value), ", expected true or false");
  }
  return value.get<bool>();
}

std::string HfConfig::text(std::string_view key) const {
  if (!has(key)) fail(Exit::Model, where_, ": '", key, "' is missing (expected a string)");
  const nlohmann::json& value = *json_->value.find(key);
  if (!value.is_string()) {
    fail(Exit::Model, where_, ": '", key, "' is ", shown(value), ", expected a string");
  }
  return value.get<std::string>();
}

std::string HfConfig::text_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}

HfConfig HfConfig::object(std::string_view key) const {
  const auto found = json_->value.find(key);
  if (found == json_->value.end() || !found->is_object()) {
    fail(Exit::Model, where_, ": '", key, "' is missing or not an object");
  }
  return HfConfig(std::make_shared<Json>(Json{*found}), concat(where_, ": ", key));
}

HfConfig HfConfig::with(std::string_view key, const HfConfig& object) const {
  auto changed = std::make_shared<Json>(*json_);
  changed->value[std::string(key)] = object.json_->value;
  return HfConfig(std::move(changed), where_);
}

HfConfig HfConfig::with_defaults(std::string_view json) const {
  auto changed = std::make_shared<Json>(Json{nlohmann::json::parse(json)});
  changed->value.update(json_->value);
  return HfConfig(std::move(changed), where_);
}

std::vector<int64_t> HfConfig::integers(std::string_view key) const {
  if (!has(key)) fail(Exit::Model, where_, ": '", key, "' is missing (expected whole numbers)");
  const nlohmann::json& value = *json_->value.find(key);
  std::vector<int64_t> all;
  const auto add = [&](const nlohmann::json& element) {
    if (!element.is_number_integer() || !fits_int64(element)) {
      fail(Exit::Model, where_, ": '", key, "' is ", shown(value), ", expected whole numbers");
    }
    all.push_back(element.get<int64_t>());
  };
  if (!value.is_array()) {
    add(value);
  } else {
    for (const nlohmann::json& element : value) add(element);
  }
  return all;
}

std::vector<std::string> HfConfig::texts(std::string_view key) const {
  if (!has(key)) fail(Exit::Model, where_, ": '", key, "' is missing (expected a list of strings)");
  const nlohmann::json& value = *json_->value.find(key);
  const auto is_text = [](const nlohmann::json& element) { return element.is_string(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_text)) {
    fail(Exit::Model, where_, ": '", key, "' is ", shown(value), ", expected a list of strings");
  }
  return value.get<std::vector<std::string>>();
}

std::vector<float> HfConfig::floats(std::string_view key) const {
  if (!has(key)) fail(Exit::Model, where_, ": '", key, "' is missing (expected numbers)");
  const nlohmann::json& value = *json_->value.find(key);
  const auto is_number = [](const nlohmann::json& element) { return element.is_number(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_number)) {
    fail(Exit::Model, where_, ": '", key, "' is ", shown(value), ", expected a list of numbers");
  }
  return value.get<std::vector<float>>();
}

std::vector<std::string> HfConfig::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json_->value.items()) keys.push_back(key);
  return keys;
}

}  // namespace skald
