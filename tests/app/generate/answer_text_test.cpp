#include "app/generate/answer_text.h"

#include <cstring>
#include <random>

#include "app/generate/constraint.h"
#include "app/model/open.h"
#include "engine/grammar/gbnf.h"
#include "models/text/open_tokenizer.h"
#include "tests/catch.h"
#include "tests/channel_models.h"

namespace skald::test {
namespace {

// A tokenizer with the control tokens of channels and of thinking. Each byte of a text is a token.
struct AnswerTokens {
  TempFolder folder;
  OpenedModel opened;
  ModelTokenizer tokens;

  AnswerTokens() {
    ChannelModel model;
    model.control_pieces = kChannelTokens;
    for (const char* piece : {"[THINK]", "[/THINK]", "<|other|>"}) {
      model.control_pieces.push_back(piece);
    }
    opened = open_model(folder.write("tokens.gguf", channel_gguf(model)));
    tokens = open_tokenizer(opened);
  }

  const Tokenizer& tokenizer() const { return *tokens.tokenizer; }

  // Names of control tokens become these tokens.
  std::vector<int32_t> ids(const std::string& text) const {
    EncodeOptions options;
    options.parse_special = true;
    options.add_bos = false;
    return tokenizer().encode(text, options);
  }
};

// The parts as text: "think(…)", "say(…)", "answer(…)", "call(…)". A "|" stands before a part that
// begins a message. Neighbouring parts of a kind are joined.
std::string shown(const std::vector<AnswerPart>& parts) {
  std::string text;
  const char* last = "";
  for (const AnswerPart& part : parts) {
    CHECK(!part.text.empty());
    const char* name = part.kind == AnswerPart::Kind::Thinking   ? "think("
                       : part.kind == AnswerPart::Kind::Preamble ? "say("
                       : part.kind == AnswerPart::Kind::Answer   ? "answer("
                                                                 : "call(";
    if (part.begins || std::strcmp(last, name) != 0) {
      if (!text.empty()) text += ")";
      text += std::string(part.begins ? "|" : "") + name;
    }
    text += part.text;
    last = name;
  }
  return text.empty() ? "" : text + ")";
}

struct Read {
  std::string parts, content, reasoning, kept;
  std::vector<ToolCall> calls;
  bool stopped;
};

Read read_answer(const AnswerTokens& tokens, const std::vector<int32_t>& answer,
                 const std::string& prompt = "<|start|>user<|message|>Hi<|end|><|start|>assistant",
                 const std::vector<std::string>& stops = {}) {
  const std::vector<int32_t> ids = tokens.ids(prompt);
  AnswerText text(tokens.tokenizer(),
                  {.stops = stops, .channels = true, .tags = true, .prompt = ids});
  std::vector<AnswerPart> parts;
  const auto add = [&](const std::vector<AnswerPart>& more) {
    parts.insert(parts.end(), more.begin(), more.end());
  };
  for (const int32_t token : answer) add(text.feed(token));
  add(text.end());
  return {shown(parts), text.content(), text.reasoning(),
          text.kept(),  text.calls(),   text.stopped()};
}

Read read_answer(const AnswerTokens& tokens, const std::string& answer) {
  return read_answer(tokens, tokens.ids(answer));
}

TEST_CASE("an answer in channels is its final message, and thinking stands beside it") {
  const AnswerTokens tokens;
  const Read both =
      read_answer(tokens,
                  "<|channel|>analysis<|message|>Hm?<|end|><|start|>assistant<|channel|>"
                  "final<|message|>Yes.");
  CHECK(both.parts == "|think(Hm?)|answer(Yes.)");
  CHECK(both.content == "Yes.");
  CHECK(both.reasoning == "Hm?");
  CHECK(both.kept == "Yes.");

  const Read twice =
      read_answer(tokens,
                  "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>"
                  "analysis<|message|>b<|end|><|start|>assistant<|channel|>final"
                  "<|constrain|>json<|message|>{}");
  CHECK(twice.parts == "|think(a)|think(b)|answer({})");
  CHECK(twice.reasoning == "a\n\nb");
  CHECK(twice.content == "{}");
}

TEST_CASE("an answer that ends before its final message has no content") {
  const AnswerTokens tokens;
  for (const char* end : {"", "<|end|>", "<|end|><|start|>assist", "<|end|><|start|>assistant",
                          "<|end|><|start|>assistant<|channel|>fin",
                          "<|end|><|start|>assistant<|channel|>final<|message|>"}) {
    const Read cut = read_answer(tokens, std::string("<|channel|>analysis<|message|>Hm?") + end);
    CAPTURE(end);
    CHECK(cut.parts == "|think(Hm?)");
    CHECK(cut.content == "");
    CHECK(cut.kept == "");
    CHECK(cut.reasoning == "Hm?");
  }
  CHECK(read_answer(tokens, "<|channel|>analysis").parts == "");
  CHECK(read_answer(tokens, "").parts == "");
}

TEST_CASE("a message with a recipient is a tool call, wherever the header names the recipient") {
  const AnswerTokens tokens;
  for (const char* header :
       {"<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
        "<|channel|>commentary to=functions.f<|constrain|>json<|message|>",
        "<|channel|>commentary to=functions.f json<|message|>",
        " to=functions.f<|channel|>commentary json<|message|>",
        " to=f<|channel|>analysis code<|message|>", "<|channel|>analysis to=f code<|message|>"}) {
    CAPTURE(header);
    const Read call = read_answer(tokens, header + std::string("{\"a\":1}"));
    CHECK(call.parts == "|call(f({\"a\":1}))");
    REQUIRE(call.calls.size() == 1);
    CHECK(call.calls[0].name == "f");
    CHECK(call.calls[0].arguments == "{\"a\":1}");
    CHECK(call.content == "");
    CHECK(call.kept == "f({\"a\":1})");
  }
  const Read several =
      read_answer(tokens,
                  "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
                  "<|channel|>commentary to=functions.a<|message|>1<|call|><|start|>"
                  "assistant to=functions.b<|channel|>commentary<|message|>2");
  CHECK(several.parts == "|say(I look.)|call(a(1))|call(b(2))");
  CHECK(several.content == "I look.");
  CHECK(several.kept == "I look.\n\na(1)\n\nb(2)");
  CHECK(several.calls.size() == 2);
}

TEST_CASE("a preamble is the content if there is no final message") {
  const AnswerTokens tokens;
  const std::string preamble = "<|channel|>commentary<|message|>First.";
  CHECK(read_answer(tokens, preamble).content == "First.");
  const Read more =
      read_answer(tokens, preamble + "<|end|><|start|>assistant<|channel|>final<|message|>Then.");
  CHECK(more.parts == "|say(First.)|answer(Then.)");
  CHECK(more.content == "Then.");
}

TEST_CASE("the prompt decides where an answer begins, and whether it has channels") {
  const AnswerTokens tokens;
  const std::string analysis = "<|channel|>analysis<|message|>a";
  const auto answer = [&](const std::string& prompt, const std::string& text) {
    return read_answer(tokens, tokens.ids(text), prompt).parts;
  };
  CHECK(answer("<|start|>assistant<|channel|>", "analysis<|message|>a") == "|think(a)");
  CHECK(answer("<|start|>assistant<|channel|>final<|message|>", "a") == "|answer(a)");
  CHECK(answer("<|start|>assistant<|channel|>analysis<|message|>", "a<|end|>") == "|think(a)");
  // Another template: control tokens have no text, as in a model without channels.
  CHECK(answer("<s>[user]Hi[assistant]", analysis) == "answer(analysisa)");
  // The prompt asks for channels, and the model writes none.
  CHECK(answer("<|start|>assistant", "no header") == "answer(no header)");
}

TEST_CASE("a stop string is found in a message, neither in a header nor across messages") {
  const AnswerTokens tokens;
  const std::string answer =
      "<|channel|>analysis<|message|>one st<|end|><|start|>assistant<|channel|>final<|message|>"
      "op two";
  const auto with_stops = [&](const std::vector<std::string>& stops) {
    return read_answer(tokens, tokens.ids(answer), "<|start|>assistant", stops);
  };
  const Read whole = with_stops({"stop", "stassistant", "analysis", "final", "assistant"});
  CHECK(whole.parts == "|think(one st)|answer(op two)");
  CHECK(!whole.stopped);
  const Read thinking = with_stops({"ne"});
  CHECK(thinking.parts == "|think(o)");
  CHECK(thinking.stopped);
  const Read final = with_stops({" t"});
  CHECK(final.parts == "|think(one st)|answer(op)");
  CHECK(final.stopped);
  const Read call =
      read_answer(tokens, tokens.ids("<|channel|>commentary to=f<|message|>{\"stop\":1}"),
                  "<|start|>assistant", {"stop"});
  CHECK(call.parts == "|call(f({\"stop\":1}))");
  CHECK(!call.stopped);
}

TEST_CASE("text that is held back for a stop string comes out in its own part, in any answer") {
  const AnswerTokens tokens;
  std::vector<std::string> pieces = kChannelTokens;
  for (const char* piece :
       {"a", "b", "\u00e9", " to=f", "commentary", "<|channel|>analysis<|message|>",
        "<|channel|>commentary<|message|>", "<|channel|>final<|message|>"}) {
    pieces.push_back(piece);
  }
  std::mt19937 random(1);
  size_t calls = 0, thinking = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string answer;
    for (int i = 0; i < 30; ++i) {
      answer += pieces[std::uniform_int_distribution<size_t>(0, pieces.size() - 1)(random)];
    }
    CAPTURE(answer);
    const std::vector<int32_t> ids = tokens.ids(answer);
    const Read plain = read_answer(tokens, ids, "<|start|>assistant");
    // These hold back text at every "a" and "b", and are never complete.
    const Read held = read_answer(tokens, ids, "<|start|>assistant", {"ab?", "ba?", "aa?", "bb?"});
    CHECK(held.parts == plain.parts);
    CHECK(held.content == plain.content);
    CHECK(held.reasoning == plain.reasoning);
    calls += plain.calls.size();
    thinking += !plain.reasoning.empty();
  }
  CHECK(calls > 100);
  CHECK(thinking > 100);
}

TEST_CASE("half a character at a message's end does not reach the next message") {
  const AnswerTokens tokens;
  std::vector<int32_t> answer = tokens.ids("<|channel|>analysis<|message|>a");
  answer.push_back(kFirstByteToken + 0xc3);  // the first byte of é
  for (const int32_t id : tokens.ids("<|end|><|start|>assistant<|channel|>final<|message|>")) {
    answer.push_back(id);
  }
  answer.push_back(kFirstByteToken + 0xa9);  // the second byte
  CHECK(read_answer(tokens, answer).parts == "|think(a\uFFFD)|answer(\uFFFD)");
}

TEST_CASE("control tokens within a message have no text") {
  const AnswerTokens tokens;
  CHECK(read_answer(tokens, "<|channel|>final<|message|>a<|other|>b<|constrain|>c").content ==
        "abc");
}

TEST_CASE("tags that are control tokens or text separate thinking from the answer") {
  const AnswerTokens tokens;
  const auto tagged = [&](const std::string& answer, const std::vector<std::string>& stops = {}) {
    return read_answer(tokens, tokens.ids(answer), "<s>[user]Hi[assistant]", stops);
  };
  const Read text = tagged("<think>\nhm\n</think>\n\nyes");
  CHECK(text.parts == "think(<think>\nhm\n</think>)answer(\n\nyes)");
  CHECK(text.content == "yes");
  CHECK(text.reasoning == "hm");
  CHECK(text.kept == "<think>\nhm\n</think>\n\nyes");  // for the template, which knows the tags

  const Read control = tagged("[THINK]hm[/THINK]yes");
  CHECK(control.parts == "think([THINK]hm[/THINK])answer(yes)");
  CHECK(control.content == "yes");
  CHECK(control.reasoning == "hm");
  CHECK(control.kept == "yes");

  // Text that is held back for a stop string stays on its side of the tag.
  CHECK(tagged("[THINK]h st[/THINK]op", {"stop"}).parts == "think([THINK]h st[/THINK])answer(op)");
  const Read open = tagged("a</think>b");
  CHECK(open.parts == "answer(a</think>b)");
  CHECK(read_answer(tokens, tokens.ids("a</think>b"), "[assistant]<think>\n").content == "b");
}

TEST_CASE("the tokens that end the text of a model with channels do not include <|end|>") {
  const AnswerTokens tokens;
  const std::vector<int32_t>& stops = tokens.tokens.stop_ids;
  const auto has = [&](const char* piece) {
    return std::count(stops.begin(), stops.end(), tokens.tokenizer().find(piece)) == 1;
  };
  CHECK(has("<|return|>"));
  CHECK(has("<|call|>"));
  CHECK(has("</s>"));
  CHECK(!has("<|end|>"));
}

TEST_CASE("in an answer with channels, a grammar constrains the final message alone") {
  const AnswerTokens tokens;
  const auto masks =
      constraint_masks(grammar::parse_gbnf("root ::= \"yes\"", "test"),
                       constraint_vocabulary(tokens.tokenizer(), tokens.tokens.stop_ids));
  const auto filter = [&](const std::string& prompt) {
    return answer_constraint(masks, tokens.tokenizer(), TextStream::Begin::Continuation,
                             tokens.ids(prompt), true);
  };
  const auto channels = filter("<|start|>assistant");
  const std::string before =
      "<|channel|>analysis<|message|>no<|end|><|start|>assistant<|channel|>final<|message|>";
  for (const int32_t id : tokens.ids(before)) {
    CHECK(channels->allowed().empty());
    CHECK(!channels->finished());
    channels->accept(id);
  }
  for (const char byte : std::string("yes")) {
    const auto id = static_cast<uint32_t>(kFirstByteToken + byte);
    const std::span<const uint64_t> allowed = channels->allowed();
    REQUIRE(!allowed.empty());
    CHECK((allowed[id / 64] >> (id % 64) & 1) == 1);
    CHECK(!channels->finished());
    channels->accept(static_cast<int32_t>(id));
  }
  CHECK(channels->finished());
  CHECK(!filter("[assistant]")->allowed().empty());  // no channels: from the first token
}

}  // namespace
}  // namespace skald::test
