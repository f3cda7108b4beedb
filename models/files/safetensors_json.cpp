#include "models/files/safetensors_json.h"

#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDims = 64;  // PyTorch's limit
constexpr int kMaxDepth = 32;    // nesting limit of skipped values; files in use have 2
constexpr std::string_view kMetadata = "__metadata__";

// Refuses every value. Derived handlers override what their text may contain.
class StrictHandler : public Json::json_sax_t {
 public:
  StrictHandler(std::string_view what, const std::string& path) : what_(what), path_(path) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a bool"); }
  bool number_integer(Json::number_integer_t) override { return unexpected("a negative number"); }
  bool number_unsigned(Json::number_unsigned_t) override { return unexpected("a number"); }
  bool number_float(Json::number_float_t, const Json::string_t&) override {
    return unexpected("a number that is not an integer below 2^64");
  }
  bool string(Json::string_t&) override { return unexpected("a string"); }
  bool binary(Json::binary_t&) override { return unexpected("binary data"); }
  bool start_object(size_t) override { return unexpected("an object"); }
  bool start_array(size_t) override { return unexpected("an array"); }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    refuse("is not valid JSON at byte ", position);
  }

 protected:
  template <class... Parts>
  [[noreturn]] void refuse(Parts&&... parts) const {
    fail(Exit::Model, path_, ": the ", what_, " ", std::forward<Parts>(parts)...,
         "; the file is damaged, download it again");
  }
  [[noreturn]] bool unexpected(std::string_view value) const {
    refuse("has ", value, where(), ", expected ", expected());
  }
  // For messages: " (NAME)" or "", and what may stand here: "an object".
  virtual std::string where() const = 0;
  virtual std::string_view expected() const = 0;

 private:
  std::string_view what_;
  const std::string& path_;
};

class HeaderHandler : public StrictHandler {
 public:
  explicit HeaderHandler(const std::string& path) : StrictHandler("header", path) {}

  std::vector<SafetensorsEntry> take_entries() { return std::move(entries_); }

  bool start_object(size_t) override {
    if (place_ == Place::Outside) {
      place_ = Place::Names;
    } else if (place_ == Place::Names && name_ == kMetadata) {
      place_ = Place::Metadata;
    } else if (place_ == Place::Names) {
      place_ = Place::Entry;
      fields_.clear();
      entries_.push_back({name_, {}, {}, 0, 0});
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(std::string& key) override {
    if (place_ == Place::Names) {
      name_ = key;
      if (!names_.insert(key).second) refuse("names '", printable(key), "' twice");
    } else if (place_ == Place::Metadata) {
      if (!metadata_.insert(key).second) refuse("has the metadata '", printable(key), "' twice");
    } else {
      field_ = key;
      if (!fields_.insert(key).second) refuse("has '", printable(key), "' twice", where());
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::Names) {
      place_ = Place::Outside;
    } else {
      if (place_ == Place::Entry) check_entry();
      place_ = Place::Names;
    }
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::Metadata) return true;
    if (place_ != Place::Entry || field_ != "dtype") unexpected("a string");
    entries_.back().dtype = std::move(text);
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::Entry || (field_ != "shape" && field_ != "data_offsets")) {
      unexpected("an array");
    }
    place_ = Place::Array;
    numbers_.clear();
    return true;
  }

  bool number_unsigned(Json::number_unsigned_t number) override {
    if (place_ != Place::Array) unexpected("a number");
    if (numbers_.size() == kMaxDims)
      refuse("has an array of more than ", kMaxDims, " numbers", where());
    numbers_.push_back(number);
    return true;
  }

  bool end_array() override {
    place_ = Place::Entry;
    SafetensorsEntry& entry = entries_.back();
    if (field_ == "shape") {
      entry.shape = numbers_;
      return true;
    }
    if (numbers_.size() != 2) {
      refuse("has ", numbers_.size(), " data_offsets, expected 2", where());
    }
    entry.begin = numbers_[0];
    entry.end = numbers_[1];
    return true;
  }

 private:
  enum class Place { Outside, Names, Metadata, Entry, Array };

  std::string where() const override {
    return name_.empty() ? "" : concat(" (", printable(name_), ")");
  }

  std::string_view expected() const override {
    switch (place_) {
      case Place::Outside:
      case Place::Names:
        return "an object";
      case Place::Metadata:
        return "a string";
      case Place::Entry:
        if (field_ == "dtype") return "a string";
        if (field_ == "shape" || field_ == "data_offsets") return "an array";
        return "only dtype, shape and data_offsets";
      case Place::Array:
        return "integers from 0 to 2^64 - 1";
    }
    return "";
  }

  void check_entry() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.count(field)) refuse("has no ", field, where());
    }
    if (fields_.size() != 3)
      refuse("has unknown fields", where(), ", expected dtype, shape and data_offsets");
  }

  Place place_ = Place::Outside;
  std::string name_;
  std::string field_;
  std::vector<uint64_t> numbers_;
  std::set<std::string> names_;
  std::set<std::string> metadata_;
  std::set<std::string> fields_;  // fields of the entry being read
  std::vector<SafetensorsEntry> entries_;
};

class IndexHandler : public StrictHandler {
 public:
  explicit IndexHandler(const std::string& path) : StrictHandler("index", path) {}

  std::map<std::string, std::string> take_map() {
    if (!keys_.count("weight_map")) refuse("has no weight_map");
    return std::move(map_);
  }

  bool null() override { return skip("null"); }
  bool boolean(bool) override { return skip("a bool"); }
  bool number_integer(Json::number_integer_t) override { return skip("a number"); }
  bool number_unsigned(Json::number_unsigned_t) override { return skip("a number"); }
  bool number_float(Json::number_float_t, const std::string&) override { return skip("a number"); }
  bool string(std::string& text) override {
    if (!in_map()) return skip("a string");
    map_[name_] = std::move(text);
    return true;
  }

  bool start_object(size_t) override {
    if (depth_ > 0 && key_ == "weight_map" && depth_ != 1) unexpected("an object");
    return enter();
  }
  bool start_array(size_t) override {
    if (depth_ == 0 || key_ == "weight_map") unexpected("an array");
    return enter();
  }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool key(std::string& key) override {
    if (depth_ == 1) {
      key_ = key;
      if (!keys_.insert(key).second) refuse("has '", printable(key), "' twice");
    } else if (in_map()) {
      name_ = key;
      if (!map_.emplace(key, "").second) refuse("names '", printable(key), "' twice");
    }
    return true;
  }

 private:
  bool in_map() const { return depth_ == 2 && key_ == "weight_map"; }
  bool skip(std::string_view value) const {
    if (depth_ == 0 || key_ == "weight_map") unexpected(value);
    return true;
  }
  bool enter() {
    if (++depth_ > kMaxDepth) refuse("is nested more than ", kMaxDepth, " deep");
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  std::string where() const override {
    const std::string& place = name_.empty() ? key_ : name_;
    return place.empty() ? "" : concat(" (", printable(place), ")");
  }
  std::string_view expected() const override { return depth_ < 2 ? "an object" : "a string"; }

  int depth_ = 0;
  std::string key_;
  std::string name_;
  std::set<std::string> keys_;
  std::map<std::string, std::string> map_;
};

void parse(std::string_view json, const std::string& path, std::string_view what,
           StrictHandler& handler) {
  // nlohmann's parser treats a zero byte as the end of the text and would ignore the rest.
  if (json.empty() || json[0] != '{' || json.find('\0') != std::string_view::npos) {
    fail(Exit::Model, path, ": the ", what,
         " is not a JSON object; the file is damaged, download it again");
  }
  Json::sax_parse(json.begin(), json.end(), &handler);
}

}  // namespace

std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view json,
                                                       const std::string& path) {
  HeaderHandler handler(path);
  parse(json, path, "header", handler);
  return handler.take_entries();
}

std::map<std::string, std::string> parse_safetensors_index(std::string_view json,
                                                           const std::string& path) {
  IndexHandler handler(path);
  parse(json, path, "index", handler);
  return handler.take_map();
}

}  // namespace skald
