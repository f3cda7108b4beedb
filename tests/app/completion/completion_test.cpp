// Shell completion and manual pages. Scripts are tried in the shells that are installed.
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "app/program/commands.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/process.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

// The output of a shell command; its exit code in `code`.
std::string shell(const std::string& command, int* code = nullptr) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  char part[4096];
  while (const size_t count = std::fread(part, 1, sizeof part, pipe)) text.append(part, count);
  const int status = ::pclose(pipe);
  if (code) *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return text;
}

bool is_installed(const char* program) {
  int code = 0;
  shell(concat("command -v ", program), &code);
  if (code != 0) std::printf("skipped: there is no %s\n", program);
  return code == 0;
}

// The flags in the left column of a help text.
std::vector<std::string> flags_of(const std::string& help) {
  std::vector<std::string> flags;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  -")) continue;
    std::istringstream names(line.substr(2, line.find_first_of(" ", 2) - 2));
    for (std::string name; std::getline(names, name, ',');) flags.push_back(name);
  }
  return flags;
}

struct BashCompletion {
  TempFolder folder;
  std::string script;

  BashCompletion() {
    script = folder.write("skald.bash", skald({"completion", "bash"}).out).string();
    std::filesystem::create_symlink(built_program(), folder.path() / "skald");
    folder.write("story.gguf", "x");
    folder.write("a file.txt", "x");
    folder.write("$(touch ran).gguf", "x");
  }

  // The completions of the last word.
  std::vector<std::string> offered(const std::vector<std::string>& words) const {
    std::string list;
    for (const std::string& word : words) list += "'" + word + "' ";
    const std::string test = "cd '" + folder.path().string() +
                             "'; PATH=$PWD:$PATH; . ./skald.bash; COMP_WORDS=(" + list +
                             "); COMP_CWORD=" + std::to_string(words.size() - 1) +
                             "; _skald; printf '%s\\n' \"${COMPREPLY[@]}\"";
    folder.write("test.sh", test);
    std::istringstream lines(shell("bash " + (folder.path() / "test.sh").string() + " 2>&1"));
    std::vector<std::string> all;
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) all.push_back(line);
    }
    return all;
  }
};

bool offers(const std::vector<std::string>& all, const std::string& word) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

TEST_CASE("bash completes commands, flags, models and files") {
  if (!is_installed("bash")) return;
  const BashCompletion bash;
  const auto commands = bash.offered({"skald", ""});
  for (const NamedCommand& command : kCommands) CHECK(offers(commands, std::string(command.name)));
  CHECK(bash.offered({"skald", "ru"}) == std::vector<std::string>{"run"});
  CHECK(bash.offered({"skald", "run", "--top-"}) == std::vector<std::string>{"--top-k", "--top-p"});
  CHECK(offers(bash.offered({"skald", "run", "-s"}), "-sys"));
  CHECK(offers(bash.offered({"skald", "run", "-m", "st"}), "story"));
  CHECK(offers(bash.offered({"skald", "run", "-m", "st"}), "story.gguf"));
  CHECK(offers(bash.offered({"skald", "run", "--model", "=", "st"}), "story"));
  CHECK(offers(bash.offered({"skald", "run", "--model", "="}), "story"));
  CHECK(offers(bash.offered({"skald", "inspect", "st"}), "story"));
  CHECK(offers(bash.offered({"skald", "run", "-f", "a"}), "a file.txt"));
  CHECK(!offers(bash.offered({"skald", "run", "-f", "st"}), "story"));
  CHECK(bash.offered({"skald", "run", "-n", ""}).empty());
  CHECK(bash.offered({"skald", "run", "--prefill-copy", "o"}) ==
        std::vector<std::string>{"on", "off"});
  CHECK(bash.offered({"skald", "batch", "--on-overflow", "=", "s"}) ==
        std::vector<std::string>{"skip"});
  CHECK(!offers(bash.offered({"skald", "inspect", "--"}), "--temp"));
}

TEST_CASE(
    "bash completes values: types, devices, shapes, templates, and the words of man and help") {
  if (!is_installed("bash")) return;
  const BashCompletion bash;
  const auto offered = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "skald");
    return bash.offered(words);
  };
  CHECK(offered({"run", "--type", "q4_k_"}) == std::vector<std::string>{"q4_k_m", "q4_k_s"});
  CHECK(offered({"run", "--type", "=", "mxfp"}) == std::vector<std::string>{});
  CHECK(offers(offered({"quantize", "--type", ""}), "q8_0"));
  CHECK(offers(offered({"bench", "--type", "bf"}), "bf16"));
  CHECK(offered({"plan", "--shape", "llama-3.2-1"}) == std::vector<std::string>{"llama-3.2-1b"});
  CHECK(offered({"chat", "--device", "cp"}) == std::vector<std::string>{"cpu"});
  for (const char* command : {"run", "chat", "batch", "template"}) {
    CHECK(offers(offered({command, "--chat-template", "chat"}), "chatml"));
    CHECK(offers(offered({command, "--chat-template", "a"}), "a file.txt"));
  }
  CHECK(offered({"man", "temp"}) == std::vector<std::string>{"template"});
  CHECK(offered({"help", "perp"}) == std::vector<std::string>{"perplexity"});
  CHECK(offered({"hel"}) == std::vector<std::string>{"help"});
  CHECK(offered({"completion", "z"}) == std::vector<std::string>{"zsh"});
}

TEST_CASE("the scripts of zsh and fish offer the same values") {
  const std::string zsh = skald({"completion", "zsh"}).out;
  const std::string fish = skald({"completion", "fish"}).out;
  for (const char* values : {"(auto cpu cuda cuda\\:0 cuda\\:1)", ":(bash zsh fish models)",
                             "{_skald_files_or ", " chatml ", ":(run chat batch "}) {
    CAPTURE(values);
    CHECK(has(zsh, values));
  }
  for (const char* values : {"-a 'auto cpu cuda cuda:0 cuda:1'", "-a 'bash zsh fish models'",
                             "-r -F -a '", " chatml ", "-a help -d", "from help' -a 'run chat "}) {
    CAPTURE(values);
    CHECK(has(fish, values));
  }
}

TEST_CASE("completion never executes a file name") {
  if (!is_installed("bash")) return;
  const BashCompletion bash;
  CHECK(offers(bash.offered({"skald", "run", "-m", ""}), "$(touch ran)"));
  CHECK(!std::filesystem::exists(bash.folder.path() / "ran"));
}

TEST_CASE("zsh and fish accept the syntax of their scripts") {
  TempFolder folder;
  for (const char* name : {"zsh", "fish"}) {
    const std::string file = folder.write(name, skald({"completion", name}).out).string();
    if (!is_installed(name)) continue;
    int code = -1;
    CHECK(shell(concat(name, " -n ", file, " 2>&1"), &code) == "");
    CHECK(code == 0);
  }
}

TEST_CASE("fish completes commands, flags and a flag's fixed values") {
  if (!is_installed("fish")) return;
  TempFolder folder;
  const std::string file = folder.write("skald.fish", skald({"completion", "fish"}).out).string();
  const auto offered = [&](const std::string& line) {
    return shell("fish --no-config -c 'source " + file + "; complete -C \"" + line + "\"' 2>&1");
  };
  CHECK(offered("skald ru").starts_with("run\t"));
  CHECK(has(offered("skald run --te"), "--temp\t"));
  CHECK(has(offered("skald plan --prefill-copy "), "off"));
}

TEST_CASE("scripts and manual pages have every command and flag of the help") {
  const std::string bash = skald({"completion", "bash"}).out;
  const std::string zsh = skald({"completion", "zsh"}).out;
  const std::string fish = skald({"completion", "fish"}).out;
  for (const NamedCommand& command : kCommands) {
    const std::string name(command.name);
    const Outcome page = skald({"man", name});
    CHECK(page.code == 0);
    CHECK(has(page.out, ".TH SKALD\\-"));
    CHECK(has(bash, "    " + name + ")"));
    CHECK(has(zsh, "  " + name + ")"));
    CHECK(has(fish, "-a " + name + " -d '"));
    for (const std::string& flag : flags_of(skald({name, "--help"}).out)) {
      CAPTURE(name, flag);
      std::string escaped;
      for (const char c : flag) escaped += c == '-' ? "\\-" : std::string(1, c);
      CHECK(has(page.out, "\\fB" + escaped + "\\fR"));
      CHECK(has(bash, " " + flag + " "));
      CHECK((has(zsh, flag + "[") || has(zsh, flag + "=[")));
      const std::string kind = flag[1] == '-' ? "-l " : flag.size() > 2 ? "-o " : "-s ";
      CHECK(has(fish, kind + flag.substr(flag[1] == '-' ? 2 : 1) + " "));
    }
  }
  CHECK(has(skald({"man"}).out, ".TH SKALD 1"));
  CHECK(has(skald({"man", "run"}).out, "skald run \"Once upon a time\""));
}

TEST_CASE("groff formats the manual pages without a warning") {
  if (!is_installed("groff")) return;
  TempFolder folder;
  CHECK(skald({"man", "-o", folder.path().string()}).code == 0);
  int pages = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "man1")) {
    CAPTURE(entry.path());
    CHECK(shell("groff -man -ww -Tutf8 " + entry.path().string() + " 2>&1 > /dev/null") == "");
    const std::string text =
        shell("groff -man -Tascii -P-cbu " + entry.path().string() + " 2> /dev/null");
    CHECK(has(text, "NAME\n"));
    CHECK(has(text, "SEE ALSO\n"));
    ++pages;
  }
  CHECK(pages == 1 + static_cast<int>(std::size(kCommands)));
}

TEST_CASE("completion -o puts each shell's file where the shell looks for it") {
  TempFolder folder;
  CHECK(skald({"completion", "-o", folder.path().string()}).out == "");
  for (const char* file : {"bash-completion/completions/skald", "zsh/site-functions/_skald",
                           "fish/vendor_completions.d/skald.fish"}) {
    CHECK(read_file(folder.path() / file).size() > 1000);
  }
}

TEST_CASE("wrong arguments of completion and man are refused") {
  CHECK(has(skald({"completion"}).err, "expected either a shell (bash, zsh, fish) or -o"));
  CHECK(skald({"completion", "bash", "-o", "x"}).code == 2);
  CHECK(has(skald({"completion", "csh"}).err, "'csh': expected bash, zsh, fish or models"));
  CHECK(has(skald({"man", "rnu"}).err, "unknown command 'rnu'"));
  CHECK(skald({"man", "run", "-o", "x"}).code == 2);
  CHECK(skald({"man", "-o", "/proc/none"}).code == 1);
}

}  // namespace
}  // namespace skald::test
