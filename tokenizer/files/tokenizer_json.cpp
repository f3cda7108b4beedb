#include "tokenizer/files/tokenizer_json.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"
#include "tokenizer/text/json_problem.h"
#include "tokenizer/text/without_nul.h"

namespace skald {
namespace {

constexpr uintmax_t kMostFileBytes = 256 << 20;  // Gemma's file has 34 MB
constexpr size_t kMostDepth = 64;
constexpr size_t kMostValues = size_t{1} << 20;  // limit of the tree
constexpr size_t kMostMerges = size_t{1} << 22;

// Receives the parser's events.
class Handler {
 public:
  using number_integer_t = int64_t;
  using number_unsigned_t = uint64_t;
  using number_float_t = double;
  using string_t = std::string;
  using binary_t = nlohmann::json::binary_t;

  Handler(TokenizerJson& out, const std::string& source) : out_(out), source_(source) {}

  bool null() { return value(nullptr); }
  bool boolean(bool b) { return value(b); }
  bool number_integer(int64_t number) { return value(number); }
  bool number_unsigned(uint64_t number) {
    if (number > INT64_MAX) return value(static_cast<double>(number));
    return value(static_cast<int64_t>(number));
  }
  bool number_float(double number, const std::string&) { return value(number); }
  bool binary(binary_t&) { return false; }

  bool string(std::string& text) {
    if (in_ == In::Merges) {
      if (pair_open_) {
        pair_.push_back(std::move(text));
      } else {
        add_merge(text);
      }
      return true;
    }
    return value(std::move(text));
  }

  bool key(std::string& text) {
    key_ = std::move(text);
    return true;
  }

  bool start_object(size_t) {
    if (in_ != In::Tree) refuse_here();
    if (is_in_model("vocab")) {
      if (seen_vocab_) fail(Exit::Model, source_, ": model: 'vocab' occurs twice");
      in_ = In::Vocab;
      return seen_vocab_ = true;
    }
    return open(JsonValue::Object());
  }

  bool start_array(size_t) {
    if (in_ == In::Merges && !pair_open_) return pair_open_ = true;
    // The array belongs to another kind of model and may be long, so it is skipped.
    if (in_ == In::Skipped || is_in_model("vocab")) {
      in_ = In::Skipped;
      if (++skipped_depth_ > kMostDepth) fail(Exit::Model, source_, ": is nested too deeply");
      return true;
    }
    if (in_ != In::Tree) refuse_here();
    if (is_in_model("merges")) {
      if (seen_merges_) fail(Exit::Model, source_, ": model: 'merges' occurs twice");
      in_ = In::Merges;
      return seen_merges_ = true;
    }
    return open(JsonValue::Array());
  }

  bool end_object() {
    if (in_ == In::Vocab) {
      in_ = In::Tree;
    } else {
      open_.pop_back();
    }
    return true;
  }

  bool end_array() {
    if (in_ == In::Skipped) {
      if (--skipped_depth_ == 0) in_ = In::Tree;
    } else if (in_ != In::Merges) {
      open_.pop_back();
    } else if (!pair_open_) {
      in_ = In::Tree;
    } else {
      if (pair_.size() != 2) refuse_here();
      put_merge(std::move(pair_[0]), std::move(pair_[1]));
      pair_.clear();
      pair_open_ = false;
    }
    return true;
  }

  // The caller says what is wrong.
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) { return false; }

 private:
  enum class In { Tree, Vocab, Merges, Skipped };

  bool is_in_model(std::string_view key) const {
    return open_.size() == 2 && open_[1].first == "model" && key_ == key;
  }

  [[noreturn]] void refuse_here() const {
    if (in_ == In::Vocab) {
      fail(Exit::Model, source_, ": model: vocab: '", printable(key_, 60),
           "' has no whole number as its id");
    }
    fail(Exit::Model, source_, ": model: merges: ", out_.merges.size(),
         ": is neither \"a b\" nor [\"a\", \"b\"]");
  }

  template <class Value>
  bool value(Value&& v) {
    if (in_ == In::Vocab) {
      if constexpr (std::is_same_v<std::decay_t<Value>, int64_t>) {
        // Checked here so that a file cannot make the vector grow without bound.
        if (out_.vocab.size() > kMaxPieces) {
          fail(Exit::Model, source_, ": more than ", kMaxPieces, " tokens");
        }
        out_.vocab.emplace_back(std::move(key_), v);
        return true;
      }
    }
    if (in_ == In::Skipped) return true;
    if (in_ != In::Tree) refuse_here();
    put(JsonValue{std::forward<Value>(v)});
    return true;
  }

  JsonValue& put(JsonValue made) {
    if (++values_ > kMostValues) {
      fail(Exit::Model, source_, ": has more than ", kMostValues, " values");
    }
    if (open_.empty()) {
      out_.root = std::move(made);
      return out_.root;
    }
    auto& container = open_.back().second->value;
    if (auto* array = std::get_if<JsonValue::Array>(&container)) {
      return array->emplace_back(std::move(made));
    }
    return std::get<JsonValue::Object>(container).emplace_back(key_, std::move(made)).second;
  }

  // Pointers to open containers stay valid: nothing is added beside one before it is closed.
  template <class Container>
  bool open(Container container) {
    if (open_.size() >= kMostDepth) fail(Exit::Model, source_, ": is nested too deeply");
    JsonValue& made = put(JsonValue{std::move(container)});
    open_.emplace_back(open_.empty() ? "" : key_, &made);
    return true;
  }

  void add_merge(const std::string& text) {
    if (text.starts_with("#version")) return;
    const size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) refuse_here();
    put_merge(text.substr(0, space), text.substr(space + 1));
  }

  void put_merge(std::string left, std::string right) {
    if (out_.merges.size() >= kMostMerges) {
      fail(Exit::Model, source_, ": more than ", kMostMerges, " merges");
    }
    out_.merges.push_back({std::move(left), std::move(right)});
  }

  TokenizerJson& out_;
  const std::string& source_;
  std::vector<std::pair<std::string, JsonValue*>> open_;  // open containers and their keys
  std::string key_;
  size_t values_ = 0, skipped_depth_ = 0;
  In in_ = In::Tree;
  bool seen_vocab_ = false, seen_merges_ = false, pair_open_ = false;
  std::vector<std::string> pair_;
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view json, const std::string& source) {
  TokenizerJson out;
  Handler handler(out, source);
  std::string changed;
  if (!nlohmann::json::sax_parse(without_nul(json, changed), &handler)) {
    fail(Exit::Model, source, ": is not valid JSON: ", json_problem(json));
  }
  if (!out.root.is_object()) fail(Exit::Model, source, ": is not a JSON object");
  return out;
}

std::string read_json_file(const std::filesystem::path& file) {
  const std::string source = printable(file.string());
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) fail(Exit::Model, source, ": is not a file");
  const uintmax_t size = std::filesystem::file_size(file, error);
  if (error) fail(Exit::Model, source, ": cannot be read: ", error.message());
  if (size > kMostFileBytes) {
    fail(Exit::Model, source, ": ", size, " bytes, too many for a tokenizer (at most ",
         kMostFileBytes, ")");
  }
  std::string json(size, '\0');
  std::ifstream in(file, std::ios::binary);
  if (!in.read(json.data(), static_cast<std::streamsize>(size))) {
    fail(Exit::Model, source, ": cannot be read");
  }
  return json;
}

}  // namespace skald
