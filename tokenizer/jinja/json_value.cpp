// Reads JSON from parser events directly into values. The JSON library's own tree does not tell
// whether a number was too large.
#include <nlohmann/json.hpp>

#include "engine/base/printable.h"
#include "tokenizer/jinja/template.h"
#include "tokenizer/text/without_nul.h"

namespace skald::jinja {
namespace {

using Json = nlohmann::json;

class Builder : public Json::json_sax_t {
 public:
  Builder(std::string_view name, const JsonReading& reading) : name_(name), reading_(reading) {}

  bool null() override { return add(None{}); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(Json::number_integer_t value) override { return add(int64_t{value}); }
  bool number_unsigned(Json::number_unsigned_t value) override {
    if (value <= INT64_MAX) return add(static_cast<int64_t>(value));
    return large(std::to_string(value), static_cast<double>(value));
  }
  bool number_float(Json::number_float_t value, const Json::string_t& digits) override {
    if (digits.find_first_of(".eE") == std::string::npos) return large(digits, value);
    return add(double{value});
  }
  bool string(Json::string_t& text) override { return add(Value::text(std::move(text))); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(Json::string_t& key) override {
    open_.back().key = std::move(key);
    return true;
  }
  bool end_object() override {
    Dict dict = std::move(open_.back().dict);
    open_.pop_back();
    return add(Value::dict(std::move(dict)));
  }
  bool end_array() override {
    std::vector<Value> items = std::move(open_.back().items);
    open_.pop_back();
    return add(Value::list(std::move(items)));
  }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    fail(reading_.code, name_, ": is not valid JSON at byte ", position);
  }

  Value result;

 private:
  struct Open {
    bool object;
    std::string key;
    Dict dict;
    std::vector<Value> items;
  };

  bool open(bool object) {
    if (open_.size() + 1 >= static_cast<size_t>(kMostValueDepth)) {
      fail(reading_.code, name_, ": lists and objects are nested more than ", kMostValueDepth,
           " deep");
    }
    open_.push_back({object, "", {}, {}});
    return true;
  }

  bool add(Value value) {
    if (open_.empty()) {
      result = std::move(value);
    } else if (open_.back().object) {
      open_.back().dict.set(open_.back().key, std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  bool large(const std::string& digits, double value) {
    if (reading_.round_large) return add(value);
    fail(reading_.code, name_, ": the whole number ", printable(digits, 40), " is beyond 64 bits");
  }

  std::string_view name_;
  const JsonReading& reading_;
  std::vector<Open> open_;
};

}  // namespace

Value from_json(std::string_view text, std::string_view name, const JsonReading& reading) {
  Builder builder(name, reading);
  std::string changed;
  Json::sax_parse(without_nul(text, changed), &builder);
  return std::move(builder.result);
}

}  // namespace skald::jinja
