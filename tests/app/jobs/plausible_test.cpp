// A result line that was damaged or edited is done again by --resume.
#include "app/jobs/plausible.h"
#include "app/files/json.h"
#include "tests/program_output.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

struct Damage {
  std::string from, to;
};

// Writes results, damages the first of them in several ways, and goes on from each.
void check_redone(const std::vector<std::string>& command, const std::string& lines,
                  const std::vector<Damage>& damages) {
  TempFolder folder;
  const std::string in = folder.write("in.jsonl", lines).string();
  const std::string out = (folder.path() / "out.jsonl").string();
  std::vector<std::string> run = command;
  run.insert(run.end(), {"-q", "-i", in, "-o", out});
  output(run);
  const std::string whole = read_file(out);
  run.push_back("--resume");
  for (const Damage& damage : damages) {
    std::string text = whole;
    CAPTURE(damage.from, damage.to, text);
    const size_t at = text.find(damage.from);
    REQUIRE(at != std::string::npos);
    text.replace(at, damage.from.size(), damage.to);
    CHECK(!plausible_result(parse_json(text.substr(0, text.find('\n')))));
    folder.write("out.jsonl", text);
    output(run);
    CHECK(read_file(out) == whole);
  }
  const std::string first = whole.substr(0, whole.find('\n'));
  CHECK(plausible_result(parse_json(first)));
}

TEST_CASE("results with impossible values are computed again") {
  const std::string prompts = "{\"prompt\":\"a\",\"max_tokens\":3}\n{\"prompt\":\"b\"}\n";
  check_redone({"batch", "-n", "2"}, prompts,
               {{"\"completion_tokens\":3", "\"completion_tokens\":-3"},
                {"\"total_tokens\":", "\"total_tokens\":1"},
                {"\"response\":{", "\"response\":null,\"was\":{"},
                {"\"choices\":[{", "\"choices\":[],\"was\":[{"},
                {"\"text\":\"", "\"text\":3,\"was\":\""},
                {"\"status_code\":200", "\"status_code\":500"}});
  check_redone({"batch", "-n", "2", "--plain"}, prompts,
               {{"\"completion_tokens\":3", "\"completion_tokens\":-3"},
                {"\"text\":", "\"txt\":"},
                {"\"prompt_tokens\":2", "\"prompt_tokens\":2.5"}});
  const std::string texts = "{\"input\":[\"a\",\"b\"]}\n{\"input\":\"c\"}\n";
  check_redone({"embed", "--dimensions", "2"}, texts,
               {{"\"embedding\":[", "\"embedding\":[\"x\","},
                {"\"data\":[{", "\"data\":[],\"was\":[{"},
                {"\"total_tokens\":", "\"total_tokens\":1"}});
  check_redone({"embed", "--dimensions", "2", "--plain"}, texts,
               {{"\"embeddings\":[[", "\"embeddings\":[[null,"},
                {"\"embeddings\":", "\"was\":"},
                {"\"prompt_tokens\":", "\"was\":"}});
  check_redone({"embed"}, "{\"query\":\"a\",\"documents\":[\"b\"]}\n",
               {{"\"relevance_score\":", "\"was\":"}, {"\"results\":[{", "\"results\":[{},{"}});
  check_redone({"score"},
               "{\"context\":\"The sky is\",\"continuation\":\" blue\"}\n"
               "{\"context\":\"The sea is\",\"continuation\":\" blue\"}\n",
               {{"\"tokens\":1", "\"tokens\":-1"},
                {"\"logprob\":-", "\"logprob\":-1"},
                {"\"logprobs\":[-", "\"logprobs\":["},
                {"\"logprob\":-", "\"logprob\":null,\"was\":-"},
                {"\"greedy\":", "\"was\":"}});
}

}  // namespace
}  // namespace skald::test
