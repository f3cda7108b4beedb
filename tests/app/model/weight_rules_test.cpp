// --override-tensor, --cpu-moe and --n-cpu-moe.
#include "app/model/weight_rules.h"

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/program_output.h"

namespace skald::test {
namespace {

const std::vector<std::string> kMoePlan = {"plan",   "--shape", "qwen3-30b-a3b", "--type",
                                           "q4_k_m", "--gpu",   "sm_90:132:12G"};

Outcome moe_plan(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = kMoePlan;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return skald(arguments);
}

// The line of the plan's table with the weights in the machine's memory.
std::string host_line(const Outcome& outcome) {
  CAPTURE(outcome.out, outcome.err);
  CHECK(outcome.code == 0);
  const size_t at = outcome.out.find("weights on the host");
  return at == std::string::npos ? "" : outcome.out.substr(at, outcome.out.find('\n', at) - at);
}

}  // namespace

TEST_CASE("rules are separated by commas, and a comma may be a part of an expression") {
  const std::vector<WeightRule> rules =
      parse_weight_rules("blk\\.\\d{1,2}\\.ffn_up=CPU,ffn_down=Cuda0,x(?=y{1,2})=stream,.=gpu");
  REQUIRE(rules.size() == 4);
  CHECK(rules[0].place == WeightPlace::Cpu);
  CHECK(rules[1].place == WeightPlace::Gpu);
  CHECK(rules[2].place == WeightPlace::Stream);
  CHECK(rules[3].place == WeightPlace::Gpu);
  CHECK(rules[0].matches("blk.10.ffn_up.weight"));
  CHECK(!rules[0].matches("blk.100.ffn_up.weight"));
  CHECK(!rules[0].matches("blk.1.ffn_down.weight"));
  CHECK(rules[2].matches("axyyb"));
  CHECK(rules[3].matches("output.weight"));
  CHECK(rules[0].text == "--override-tensor 'blk\\.\\d{1,2}\\.ffn_up=CPU'");
}

TEST_CASE("a wrong rule is refused") {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {{"", "expected REGEX=PLACE"},
               {"ffn_up", "expected REGEX=PLACE"},
               {"=cpu", "expected REGEX=PLACE"},
               {"a=cpu,", "expected REGEX=PLACE"},
               {",a=cpu", "--override-tensor ',a=cpu'"},
               {"a=", "unknown place ''; expected cpu, gpu or stream"},
               {"a=CUDA1", "unknown place 'CUDA1'; expected cpu, gpu or stream"},
               {"a=cpu,b=disk", "--override-tensor 'b=disk': unknown place 'disk'"},
               {"(=cpu", "--override-tensor '(=cpu': the expression"},
               {"a\x1b=x\x1by", "unknown place"}};
  for (const auto& [text, says] : cases) {
    CAPTURE(text);
    if (text[0] == ',') {  // the comma belongs to the expression
      CHECK(parse_weight_rules(text).size() == 1);
      continue;
    }
    CHECK(has(error_text([&rules = text] { parse_weight_rules(rules); }, Exit::Usage), says));
  }
  // An expression that takes for ever is the user's mistake, too.
  const std::vector<WeightRule> slow = parse_weight_rules("^(a|aa)+$=cpu");
  CHECK(has(error_text([&] { slow[0].matches(std::string(5000, 'a') + "!"); }, Exit::Usage),
            "--override-tensor '"));
}

TEST_CASE("rules for experts count layers") {
  const WeightRule all = expert_rule({}), three = expert_rule(3);
  CHECK(all.matches("blk.40.ffn_gate_up_exps.weight"));
  CHECK(!all.matches("blk.40.ffn_gate_shexp.weight"));
  CHECK(!all.matches("blk.40.ffn_gate_inp.weight"));
  CHECK(three.matches("blk.2.ffn_down_exps.weight"));
  CHECK(!three.matches("blk.3.ffn_down_exps.weight"));
  CHECK(!three.matches("blk.20.ffn_down_exps.weight"));
  CHECK(three.text == "--n-cpu-moe 3");
}

TEST_CASE("plan follows the flags, in llama.cpp's spellings too") {
  const std::string all = host_line(moe_plan({"--cpu-moe"}));
  CHECK(all != "");
  CHECK(host_line(moe_plan({"-cmoe"})) == all);
  CHECK(host_line(moe_plan({"-ot", "ffn_.*_exps=CPU"})) == all);
  CHECK(host_line(moe_plan({"--n-cpu-moe", "48"})) == all);
  CHECK(host_line(moe_plan({"-ncmoe", "40"})) != all);
  // Rules of -ot come first, wherever they stand.
  const std::string but_one = host_line(moe_plan({"--cpu-moe", "-ot", "blk\\.0\\..*_exps=gpu"}));
  CHECK(but_one != all);
  CHECK(host_line(moe_plan({"-ot", "blk\\.0\\..*_exps=gpu", "-ot", "_exps=cpu"})) == but_one);
  CHECK(host_line(moe_plan({"--override-tensor", "blk\\.0\\..*_exps=gpu,_exps=cpu"})) == but_one);
  CHECK(moe_plan({"-ot", "_exps=gpu"}).code == 4);
}

TEST_CASE("a rule that matches nothing is wrong usage, with names of tensors") {
  check_refused(moe_plan({"-ot", "_expps=cpu"}), 2,
                "--override-tensor '_expps=cpu' matches no tensor of this model; its tensors have "
                "names such as token_embd.weight, ");
  check_refused(skald({"plan", "--shape", "llama-3.2-1b", "--type", "bf16", "--gpu",
                       "sm_90:132:12G", "--cpu-moe"}),
                2, "--cpu-moe matches no tensor");
  check_refused(moe_plan({"--n-cpu-moe", "-1"}), 2, "--n-cpu-moe");
  check_refused(moe_plan({"--n-cpu-moe", "x"}), 2, "expected a number of layers");
}

}  // namespace skald::test
