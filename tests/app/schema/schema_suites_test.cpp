// Runs public suites of JSON schemas, which scripts/schema_suites names and explains. Hidden: it
// needs data that is not part of the repository.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <sstream>

#include "app/files/json.h"
#include "app/generate/constraint.h"
#include "app/schema/json_schema.h"
#include "engine/base/error.h"
#include "models/text/open_tokenizer.h"
#include "tests/catch.h"
#include "tests/engine/grammar/grammar_tools.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

struct Counts {
  size_t schemas = 0, compiled = 0, whole = 0;  // whole: every test of the schema is right
  size_t tests = 0, right = 0;
  size_t valid = 0, refused = 0;  // of compiled schemas: valid instances, those refused
  size_t invalid = 0, accepted = 0, silent = 0;  // invalid instances, accepted, without a note
  std::vector<double> compile_ms, mask_us;

  void add(const Counts& other) {
    constexpr size_t Counts::*kSums[] = {
        &Counts::schemas, &Counts::compiled, &Counts::whole,   &Counts::tests,    &Counts::right,
        &Counts::valid,   &Counts::refused,  &Counts::invalid, &Counts::accepted, &Counts::silent};
    for (const auto sum : kSums) this->*sum += other.*sum;
    compile_ms.insert(compile_ms.end(), other.compile_ms.begin(), other.compile_ms.end());
    mask_us.insert(mask_us.end(), other.mask_us.begin(), other.mask_us.end());
  }
};

// Counts this thread's processor time, so that other programs do not count.
double now_ms() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

class Suites {
 public:
  Suites() {
    if (const char* path = std::getenv("SKALD_SCHEMA_LOG")) log_ = std::fopen(path, "w");
    if (const char* path = std::getenv("SKALD_SCHEMA_TOKENIZER")) {
      tokenizer_ = open_tokenizer(path);
      const int32_t none = -1;
      vocabulary_ = constraint_vocabulary(*tokenizer_, {&none, 1});
    }
  }
  ~Suites() {
    if (log_) std::fclose(log_);
  }
  Suites(const Suites&) = delete;
  Suites& operator=(const Suites&) = delete;

  bool has_tokenizer() const { return tokenizer_ != nullptr; }

  // `tests` is an array of {"data", "valid"}.
  void run(const std::string& name, const Json& schema, const Json& tests, Counts& counts) {
    ++counts.schemas;
    counts.tests += tests.size();
    const double begin = now_ms();
    std::shared_ptr<Masks> masks;
    std::vector<std::string> notes;
    try {
      SchemaRules rules = json_schema_rules(schema, "s");
      notes = std::move(rules.notes);
      masks = make_masks(rules.rules, vocabulary_);
    } catch (const std::exception& error) {
      const std::string what = error.what();
      // A schema without any valid instance is an error by intent.
      if (what.find("can never end") == std::string::npos) {
        log("refused", name, what);
        return;
      }
    }
    counts.compile_ms.push_back(now_ms() - begin);
    if (counts.compile_ms.back() > 20) {
      log("slow to compile", name, std::to_string(counts.compile_ms.back()));
    }
    ++counts.compiled;
    std::erase_if(notes, [](const std::string& note) {
      return note.find("keywords without a meaning") != std::string::npos;
    });
    bool whole = true;
    for (const Json& test : tests) {
      const bool valid = test.at("valid").get<bool>();
      bool accepted = false;
      const std::string text = written(test.at("data"));
      if (masks) {
        Matcher matcher(masks);
        accepted = matcher.accept(text) && matcher.may_end();
        if (tokenizer_ && accepted) measure(name, masks, text, counts);
      }
      whole &= accepted == valid;
      counts.right += accepted == valid;
      ++(valid ? counts.valid : counts.invalid);
      if (valid && !accepted) {
        ++counts.refused;
        log("not accepted", name, text);
      }
      if (!valid && accepted) {
        ++counts.accepted;
        counts.silent += notes.empty();
        log(notes.empty() ? "silently accepted" : "accepted with a note", name,
            text + (notes.empty() ? "" : "   " + notes[0]));
      }
    }
    counts.whole += whole;
  }

 private:
  // Writes a space after commas and colons, as Python does.
  static std::string written(const Json& value) {
    std::string text;
    if (value.is_object()) {
      for (const auto& [name, member] : value.items()) {
        text += (text.empty() ? "" : ", ") + dump(Json(name)) + ": " + written(member);
      }
      return "{" + text + "}";
    }
    if (!value.is_array()) return dump(value);
    for (const Json& item : value) text += (text.empty() ? "" : ", ") + written(item);
    return "[" + text + "]";
  }

  // The time of the mask before each token.
  void measure(const std::string& name, const std::shared_ptr<Masks>& masks,
               const std::string& text, Counts& counts) const {
    Matcher matcher(masks);
    for (const int32_t id : tokenizer_->encode(text, {.add_bos = false, .add_eos = false})) {
      const double begin = now_ms();
      matcher.mask();
      counts.mask_us.push_back(1000 * (now_ms() - begin));
      if (counts.mask_us.back() > 2000) {
        log("slow mask", name, std::to_string(counts.mask_us.back()));
      }
      if (!matcher.accept(id)) return;
    }
  }

  void log(const char* kind, const std::string& name, const std::string& text) const {
    if (log_) std::fprintf(log_, "%s\t%s\t%s\n", kind, name.c_str(), text.substr(0, 400).c_str());
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::shared_ptr<const Vocabulary> vocabulary_ = make_vocabulary({});
  std::FILE* log_ = nullptr;
};

Json read_json(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return parse_json(text.str());
}

std::vector<fs::path> files(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The middle value, the one that 1 % exceed, and the largest.
std::string times(std::vector<double> all) {
  if (all.empty()) return "";
  std::sort(all.begin(), all.end());
  const auto at = [&](double part) {
    return all[static_cast<size_t>(part * static_cast<double>(all.size() - 1))];
  };
  std::string text;
  for (const double part : {0.5, 0.99, 1.0}) {
    char number[40];
    std::snprintf(number, sizeof number, at(part) < 1000 ? "%.3g" : "%.0f", at(part));
    text += (text.empty() ? "" : " / ") + std::string(number);
  }
  return text;
}

std::string share(size_t part, size_t all) {
  char text[60];
  std::snprintf(text, sizeof text, "%zu (%.1f %%)", part,
                all == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(all));
  return text;
}

// scripts/schema_suites puts a table into the files that have the same two comments around one.
class Table {
 public:
  explicit Table(const char* name) { std::printf("<!-- suites:begin %s -->\n", name); }
  ~Table() { std::printf("<!-- suites:end -->\n"); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
};

struct Result {
  std::string suite;
  Counts counts;
};

void print_suites(const std::vector<Result>& results) {
  const Table table("suites");
  std::printf(
      "| suite | schemas | compiled | every test right | tests right | valid refused | invalid "
      "accepted | without a note |\n|---|---|---|---|---|---|---|---|\n");
  for (const auto& [suite, c] : results) {
    std::printf("| %s | %zu | %s | %s | %s | %zu of %zu | %zu of %zu | %zu |\n", suite.c_str(),
                c.schemas, share(c.compiled, c.schemas).c_str(), share(c.whole, c.schemas).c_str(),
                share(c.right, c.tests).c_str(), c.refused, c.valid, c.accepted, c.invalid,
                c.silent);
  }
}

void print_times(const std::vector<Result>& results) {
  const Table table("times");
  std::printf("| median / 99 %% / most | a schema compiles, ms | a mask, µs |\n|---|---|---|\n");
  for (const auto& [suite, c] : results) {
    std::printf("| %s | %s | %s |\n", suite.c_str(), times(c.compile_ms).c_str(),
                times(c.mask_us).c_str());
  }
}

using ByKeyword = std::map<std::string, std::map<std::string, Counts>>;  // and by draft

void print_keywords(const ByKeyword& keywords, std::span<const char* const> drafts) {
  const Table table("keywords");
  std::printf("| keyword |");
  for (const char* draft : drafts) {
    std::printf(" %s: tests right | valid refused | invalid accepted |", draft);
  }
  std::printf("\n|---|");
  for (size_t i = 0; i < drafts.size(); ++i) std::printf("---|---|---|");
  for (const auto& [keyword, by_draft] : keywords) {
    std::printf("\n| %s |", keyword.c_str());
    for (const char* draft : drafts) {
      const auto found = by_draft.find(draft);
      if (found == by_draft.end()) {
        std::printf(" | | |");
        continue;
      }
      const Counts& c = found->second;
      std::printf(" %zu of %zu | %s | %s |", c.right, c.tests,
                  c.refused > 0 ? std::to_string(c.refused).c_str() : "",
                  c.accepted > 0 ? std::to_string(c.accepted).c_str() : "");
    }
  }
  std::printf("\n");
}

TEST_CASE("suites of schemas", "[.schema_suites]") {
  const char* folder = std::getenv("SKALD_SCHEMA_SUITES");
  REQUIRE(folder);
  Suites suites;
  std::vector<Result> results;
  ByKeyword keywords;
  constexpr struct {
    const char *folder, *name;
  } kDrafts[] = {{"draft7", "draft 7"}, {"draft2020-12", "2020-12"}};
  for (const auto& draft : kDrafts) {
    const fs::path path = fs::path(folder) / "tests" / draft.folder;
    if (!fs::exists(path)) continue;
    Counts all;
    for (const fs::path& file : files(path)) {
      Counts& counts = keywords[file.stem().string()][draft.name];
      for (const Json& group : read_json(file)) {
        Json schema = group.at("schema");
        // The folder says which draft is meant.
        if (schema.is_object() && !schema.contains("$schema") && draft.name == kDrafts[0].name) {
          schema["$schema"] = "http://json-schema.org/draft-07/schema#";
        }
        suites.run(file.stem().string() + ": " + group.at("description").get<std::string>(), schema,
                   group.at("tests"), counts);
      }
      all.add(counts);
    }
    results.push_back({concat("JSON-Schema-Test-Suite, ", draft.name), std::move(all)});
  }
  if (const fs::path path = fs::path(folder) / "maskbench" / "data"; fs::exists(path)) {
    Counts counts;
    for (const fs::path& file : files(path)) {
      const Json one = read_json(file);
      suites.run(file.filename().string(), one.at("schema"), one.value("tests", Json::array()),
                 counts);
    }
    results.push_back({"MaskBench", std::move(counts)});
  }
  print_suites(results);
  if (suites.has_tokenizer()) print_times(results);
  if (!keywords.empty()) {
    const char* names[] = {kDrafts[0].name, kDrafts[1].name};
    print_keywords(keywords, names);
  }
}

}  // namespace
}  // namespace skald::test
