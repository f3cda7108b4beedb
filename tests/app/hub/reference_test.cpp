#include "app/hub/reference.h"

#include <set>

#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

// "repository|revision|file|type"; "none" where the text names nothing.
std::string parsed(const std::optional<HubReference>& r) {
  return r ? r->repository + "|" + r->revision + "|" + r->file + "|" + r->type : "none";
}

TEST_CASE("a reference has an owner, a name and optional parts") {
  const auto parse = [](const char* text) { return parsed(parse_reference(text)); };
  CHECK(parse("acme/tiny") == "acme/tiny|||");
  CHECK(parse("tiny") == "tiny|||");
  CHECK(parse("acme/tiny:q8_0") == "acme/tiny|||Q8_0");
  CHECK(parse("acme/tiny:latest") == "acme/tiny|||");
  CHECK(parse("acme/tiny@v1.0:UD-Q4_K_XL") == "acme/tiny|v1.0||UD-Q4_K_XL");
  CHECK(parse("acme/tiny/a/b.gguf") == "acme/tiny||a/b.gguf|");
  CHECK(parse("acme/tiny@abc/b.gguf") == "acme/tiny|abc|b.gguf|");
  for (const char* text : {"acme/tiny@v1/a/b.gguf:Q8_0", "acme/tiny:Q4_0", "acme/tiny"}) {
    CHECK(to_text(*parse_reference(text)) == text);
  }
}

TEST_CASE("web addresses of the hub are references") {
  const auto parse = [](const char* text) { return parsed(parse_reference(text)); };
  CHECK(parse("https://huggingface.co/acme/tiny") == "acme/tiny|||");
  CHECK(parse("https://huggingface.co/acme/tiny/") == "acme/tiny|||");
  CHECK(parse("https://huggingface.co/acme/tiny/tree/main") == "acme/tiny|main||");
  CHECK(parse("https://huggingface.co/acme/tiny/blob/main/x-Q8_0.gguf?download=true") ==
        "acme/tiny|main|x-Q8_0.gguf|");
  CHECK(parse("hf.co/acme/tiny:Q4_K_M") == "acme/tiny|||Q4_K_M");
}

TEST_CASE("what would lead out of the cache is no reference") {
  for (const char* text : {"",         "/",          "a/",     "/a/b",   "../a",     "a/..",
                           "./a",      "~/a",        "a--b/c", "a/b--c", "a/b/../c", "a/b//c",
                           "a/b@../c", "a/b@..",     "a/b@",   "a/b:",   "a/b:x y",  "a b/c",
                           "-a/b",     "a/b@x/../y", "a/.b",   "a\n/b",  "a/b@v1/"}) {
    CAPTURE(text);
    CHECK(!parse_reference(text));
  }
}

TEST_CASE("ollama's short names have sizes and types") {
  const auto parse = [](const char* text) { return parsed(parse_short_name(text)); };
  CHECK(parse("llama3.2") == "bartowski/Llama-3.2-3B-Instruct-GGUF|||");
  CHECK(parse("llama3.2:latest") == parse("llama3.2"));
  CHECK(parse("llama3.2:1b") == "bartowski/Llama-3.2-1B-Instruct-GGUF|||");
  CHECK(parse("Llama3.2:1B") == parse("llama3.2:1b"));
  CHECK(parse("llama3.2:1b-instruct-q8_0") == "bartowski/Llama-3.2-1B-Instruct-GGUF|||Q8_0");
  CHECK(parse("llama3.2:1b-q8_0") == "bartowski/Llama-3.2-1B-Instruct-GGUF|||Q8_0");
  CHECK(parse("llama3.2:Q8_0") == "bartowski/Llama-3.2-3B-Instruct-GGUF|||Q8_0");
  CHECK(parse("gemma3:4b-it-q4_k_m") == "ggml-org/gemma-3-4b-it-GGUF|||Q4_K_M");
  CHECK(parse("qwen3:8b") == "Qwen/Qwen3-8B-GGUF|||");
  CHECK(parse("llama4") == "none");
  CHECK(parse("llama3.2:a b") == "none");
}

TEST_CASE("the table of short names is sound") {
  std::set<std::string_view> seen;
  for (std::string_view name : short_names()) {
    CAPTURE(name);
    CHECK(seen.insert(name).second);  // also: the lines of a name lie together
    const auto found = parse_short_name(name);
    REQUIRE(found);
    CHECK(is_repository(found->repository));
    CHECK(found->type == "");
  }
  for (const char* name : {"llama3.2", "qwen3", "gemma3", "gpt-oss", "phi4", "mistral"}) {
    CHECK(seen.count(name) == 1);
  }
}

TEST_CASE("what names no model of the hub is an error that says what is expected") {
  CHECK(remote_reference("acme/tiny:q4_0").type == "Q4_0");
  CHECK(remote_reference("mistral").repository == "bartowski/Mistral-7B-Instruct-v0.3-GGUF");
  const auto text = [](const char* name) {
    return error_text([&] { remote_reference(name); }, Exit::Usage);
  };
  CHECK(text("llama3,2") ==
        "'llama3,2' is no name of the hub; expected OWNER/NAME, "
        "OWNER/NAME:TYPE or a short name such as llama3.2:1b");
  CHECK(text("lama3.2") ==
        "'lama3.2': there is no such short name, did you mean 'llama3.2'? Else "
        "give the owner too, as in OWNER/NAME");
  CHECK(has(text("something-else-entirely"), "; give the owner too, as in OWNER/NAME"));
  CHECK(has(text("/tmp/x.gguf"), "is no name of the hub"));
}

}  // namespace
}  // namespace skald::test
