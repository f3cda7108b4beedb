#include "app/files/json.h"

#include <utility>
#include <vector>

#include "app/files/key_places.h"
#include "tokenizer/text/without_nul.h"

namespace skald {
namespace {

// Builds the values. The library itself compares each key of an ordered object with all keys before
// it, which takes minutes for an object of some hundred thousand keys. As there, the last of
// several equal keys counts, in the place of the first.
class Builder final : public Json::json_sax_t {
 public:
  explicit Builder(const std::function<void(int depth)>& check) : check_(check) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(Json::number_integer_t value) override { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) override { return add(value); }
  bool number_float(Json::number_float_t value, const Json::string_t&) override {
    return add(value);
  }
  bool string(Json::string_t& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t& value) override { return add(std::move(value)); }
  bool key(Json::string_t& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const Json::exception& problem) override {
    throw Json::exception(problem);
  }

  Json take() { return std::move(result_); }

 private:
  struct Open {
    Json value;
    std::string key;
    KeyPlaces<> places;  // of an object's keys, where it has many
  };

  bool open(Json value) {
    if (check_) check_(static_cast<int>(open_.size()));
    open_.push_back({std::move(value), {}, {}});
    return true;
  }

  bool close() {
    Json done = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(done));
  }

  bool add(Json value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (Open& in = open_.back(); in.value.is_array()) {
      in.value.push_back(std::move(value));
    } else {
      add_field(in, std::move(value));
    }
    return true;
  }

  static void add_field(Open& in, Json value) {
    constexpr size_t kFew = 32;
    auto& object = in.value.get_ref<Json::object_t&>();
    if (object.size() < kFew) {
      object[in.key] = std::move(value);
      return;
    }
    Json::object_t::Container& fields = object;
    if (in.places.empty()) {
      for (const auto& field : fields) in.places.add(field.first);
    }
    const auto [place, added] = in.places.add(in.key);
    if (added) {
      fields.push_back({std::move(in.key), std::move(value)});
    } else {
      fields[place].second = std::move(value);
    }
  }

  const std::function<void(int depth)>& check_;
  std::vector<Open> open_;
  Json result_;
};

}  // namespace

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json parse_json(std::string_view text) { return parse_json(text, nullptr); }

Json parse_json_or_null(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const Json::exception&) {
    return nullptr;
  }
}

Json parse_json(std::string_view text, const std::function<void(int depth)>& check) {
  Builder builder(check);
  std::string changed;
  Json::sax_parse(without_nul(text, changed), &builder);
  return builder.take();
}

}  // namespace skald
