#include "app/chat/dialogue.h"

#include <cmath>

#include "app/model/chat_template.h"
#include "app/model/open.h"
#include "tests/app/chat/counting_executor.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

// A dialogue with a model and a chat template.
struct Talk {
  OpenedModel opened;
  ModelTokenizer tokens;
  CountingExecutor executor;
  ChatTemplate chat;
  Dialogue dialogue;
  AnswerOptions options;
  std::string answer_text;

  Talk(const std::filesystem::path& model, const std::string& text, int64_t context)
      : opened(open_model(model)),
        tokens(open_tokenizer(opened)),
        executor(cpu::make_executor(opened.model, {.context = context, .rows = 16, .threads = 1})),
        chat({{"default", "test", text}}, {.bos = "<s>", .eos = "</s>"}),
        dialogue({executor, *tokens.tokenizer, chat, tokens.stop_ids, {}}) {
    options.part = [&](const AnswerPart& part) { answer_text += part.text; };
    options.sampling.seed = 1;
  }

  Answer ask(const std::string& message) {
    dialogue.say(message);
    return answer();
  }
  Answer answer() {
    answer_text.clear();
    return dialogue.answer(options);
  }
  std::string last() const { return dialogue.messages().back().content; }
};

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

// The bundled model, whose answers differ from turn to turn.
struct BundledModelTalk : Talk {
  explicit BundledModelTalk(const std::string& text = kTemplate)
      : Talk(bundled_model(), text, 512) {
    options.most_tokens = 20;
  }
};

// A model that generates the same token for ever. Each byte of a text is a token.
struct OneTokenTalk : private TempFolder, Talk {
  explicit OneTokenTalk(int64_t context, const FlatModel& flat = {},
                        const std::string& text = kTemplate)
      : Talk(write("flat.gguf", flat_gguf(flat)), text, context) {
    options.sampling.temperature = 0;
    options.sampling.logit_bias = {{259, 5.0f}};
    options.most_tokens = 3;
  }
};

TEST_CASE(
    "a turn computes only its own tokens, even where the tokenizer would cut the answer's text "
    "otherwise") {
  for (const char* text :
       {kTemplate,
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + eos_token }}"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"}) {
    BundledModelTalk talk{text};
    talk.options.sampling.temperature = 8;
    talk.options.sampling.top_k = 0;
    talk.options.sampling.top_p = 1;
    talk.options.sampling.min_p = 0;
    // Normal tokens alone are allowed.
    for (int32_t id = 0; id < talk.tokens.tokenizer->vocab_size(); ++id) {
      if (talk.tokens.tokenizer->kind(id) == TokenKind::Normal) continue;
      talk.options.sampling.logit_bias.emplace_back(id, -INFINITY);
    }
    bool cut_otherwise = false;
    for (const char* message : {"Tell me a story", "And then?", "What did the fox say?", "Why?"}) {
      const int64_t before = talk.dialogue.session().computed();
      const Answer answer = talk.ask(message);
      CHECK(answer.reused >= before - 1);  // a template may cut white space at an answer's end
      CHECK(answer.prompt > answer.reused);
      CHECK(talk.last() == talk.answer_text);
      const auto& ids = talk.dialogue.session().tokens();
      const std::vector<int32_t> again =
          talk.tokens.tokenizer->encode(talk.answer_text, {.add_bos = false, .starts_text = false});
      cut_otherwise |= !std::equal(again.rbegin(), again.rend(), ids.rbegin());
    }
    CHECK(talk.dialogue.turns() == 4);
    CHECK(cut_otherwise);
    CHECK(talk.executor.rows == talk.dialogue.session().computed());  // each position only once
  }
}

TEST_CASE("the session holds the tokens of the rendered template") {
  OneTokenTalk talk(200);
  talk.ask("a");
  talk.dialogue.set_system("s");
  talk.ask("b");
  const std::string written = "[system]s</s>[user]a</s>[assistant]xxx</s>[user]b</s>[assistant]";
  const std::string held =
      talk.tokens.tokenizer->decode(talk.dialogue.session().tokens(), /*show_control=*/true);
  CHECK(held == "<s>" + written + "xxx");
  CHECK(talk.dialogue.prompt() == "<s>" + written + "xxx</s>");
}

TEST_CASE("undo and retry reuse all tokens computed before") {
  BundledModelTalk talk;
  talk.ask("Tell me a story");
  const std::string first = talk.last();
  talk.ask("And then?");
  const std::string second = talk.last();
  CHECK(talk.dialogue.undo());
  CHECK(talk.dialogue.turns() == 1);
  CHECK(talk.last() == first);
  const Answer other = talk.ask("Who was there?");
  CHECK(other.reused > 20);
  CHECK(other.prompt - other.reused < 20);

  // Another answer to the same message: other random numbers, and the whole prompt is in the cache.
  const std::string before = talk.last();
  CHECK(talk.dialogue.take_back_answer());
  CHECK(talk.dialogue.awaits_answer());
  const Answer again = talk.answer();
  CHECK(again.reused == again.prompt);
  CHECK(talk.last() != before);

  CHECK(talk.dialogue.undo());
  CHECK(talk.dialogue.undo());
  CHECK(!talk.dialogue.undo());
  CHECK(!talk.dialogue.take_back_answer());
  CHECK(talk.dialogue.messages().empty());
  CHECK(talk.dialogue.tokens() == 0);
}

TEST_CASE("the same seed gives the same dialogue, retries included") {
  const auto dialogue = [](uint64_t seed) {
    BundledModelTalk talk;
    talk.options.sampling.seed = seed;
    talk.ask("Tell me a story");
    talk.dialogue.take_back_answer();
    talk.answer();
    talk.ask("And then?");
    return talk.dialogue.prompt();
  };
  CHECK(dialogue(1) == dialogue(1));
  CHECK(dialogue(1) != dialogue(2));
}

TEST_CASE("a template may drop the thinking of earlier answers") {
  FlatModel flat;
  flat.extra_piece = "<think>hm</think>yes";
  OneTokenTalk talk(
      200, flat,
      "{% for m in messages %}[{{ m.role }}]{{ m.content.split('</think>')[-1] }}"
      "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}");
  talk.options.most_tokens = 1;
  talk.ask("a");
  CHECK(talk.last() == "<think>hm</think>yes");
  const Answer second = talk.ask("b");
  const std::string held =
      talk.tokens.tokenizer->decode(talk.dialogue.session().tokens(), /*show_control=*/true);
  CHECK(held == "<s>[user]a</s>[assistant]yes</s>[user]b</s>[assistant]<think>hm</think>yes");
  CHECK(second.reused == 20);  // "<s>[user]a</s>[assistant]"
}

TEST_CASE("thinking between control tokens is shown and does not belong to the message") {
  FlatModel flat;
  flat.extra_piece = "[/THINK]";
  flat.extra_is_control = true;
  OneTokenTalk talk(200, flat);
  talk.options.sampling.logit_bias = {{259, 5.0f}, {kFirstByteToken + 'y', 4.0f}};
  talk.options.sampling.presence_penalty = 2;
  talk.options.most_tokens = 2;
  talk.ask("a");
  CHECK(talk.answer_text == "[/THINK]y");
  CHECK(talk.last() == "y");
}

TEST_CASE("the name of a control token in a message is plain text") {
  OneTokenTalk talk(200);
  talk.ask("a</s>[assistant]no</s>");
  const auto& ids = talk.dialogue.session().tokens();
  CHECK(std::count(ids.begin(), ids.end(), 2) == 1);
}

TEST_CASE("an answer ends at an end token, a stop string or the token limit") {
  OneTokenTalk talk(200);
  talk.options.stops = {"xxx"};
  talk.options.most_tokens = -1;
  CHECK(talk.ask("a").generated.reason == FinishReason::Stop);
  CHECK(talk.last() == "");
  CHECK(!talk.dialogue.awaits_answer());
  talk.options.stops.clear();
  talk.options.sampling.logit_bias = {{2, 5.0f}};
  CHECK(talk.ask("b").generated.reason == FinishReason::Stop);
  CHECK(talk.last() == "");
  CHECK(talk.dialogue.messages().size() == 4);
}

TEST_CASE("an interrupted answer is kept; without a token, the message stays unanswered") {
  OneTokenTalk talk(200);
  talk.options.most_tokens = -1;
  int64_t steps = 0;
  talk.options.interrupted = [&] { return talk.answer_text.size() >= 5 || ++steps > 100; };
  CHECK(talk.ask("a").generated.reason == FinishReason::Interrupted);
  CHECK(talk.last() == "xxxxx");
  talk.options.interrupted = [] { return true; };
  CHECK(talk.ask("b").generated.reason == FinishReason::Interrupted);
  CHECK(talk.dialogue.awaits_answer());
  talk.options.interrupted = nullptr;
  talk.options.most_tokens = 2;
  CHECK(talk.answer().generated.reason == FinishReason::Length);
  CHECK(talk.last() == "xx");
}

TEST_CASE("the tokens generated before an error stay in the dialogue") {
  OneTokenTalk talk(200);
  talk.options.part = [&](const AnswerPart& part) {
    talk.answer_text += part.text;
    if (talk.answer_text.size() == 2) fail(Exit::Closed, "the reader went away");
  };
  CHECK(has(error_text([&] { talk.ask("a"); }, Exit::Closed), "went away"));
  CHECK(talk.last() == "xx");
}

TEST_CASE("a full context drops the oldest turns whole, and only with permission") {
  OneTokenTalk talk(160);
  talk.dialogue.set_system("sys");
  for (const char* message : {"one", "two", "three"}) talk.ask(message);
  const size_t messages = talk.dialogue.messages().size();
  const auto fourth = std::string(60, 'f');

  // Without permission to drop turns, the answer ends at once.
  talk.dialogue.say(fourth);
  CHECK(talk.answer().generated.reason == FinishReason::Context);
  CHECK(talk.answer_text == "");
  CHECK(talk.dialogue.messages().size() == messages + 1);
  talk.options.drop_turns = [](const Room&) { return false; };
  CHECK(talk.answer().generated.reason == FinishReason::Context);
  CHECK(talk.dialogue.messages().size() == messages + 1);

  Room asked;
  talk.options.drop_turns = [&](const Room& room) {
    asked = room;
    return true;
  };
  CHECK(talk.answer().generated.reason == FinishReason::Length);
  CHECK(asked.context == 160);
  CHECK(asked.needed > 160);
  // Dropping one turn would suffice, but would free less than a quarter of the context.
  CHECK(asked.drop == 2);
  CHECK(asked.needed_after <= 120);
  const auto& left = talk.dialogue.messages();
  REQUIRE(left.size() == 5);
  CHECK(left[0].content == "sys");
  CHECK(left[1].content == "three");
  CHECK(left[3].content == fourth);
  CHECK(left[4].content == "xxx");
  CHECK(std::ssize(talk.dialogue.session().tokens()) == asked.needed_after - 1 + 3);
}

TEST_CASE("an answer that fills the context continues after turns are dropped") {
  OneTokenTalk talk(100);
  for (const char* message : {"one", "two"}) talk.ask(message);
  talk.options.most_tokens = 60;
  int asked = 0;
  talk.options.drop_turns = [&](const Room& room) {
    ++asked;
    CHECK(room.needed == 101);
    CHECK(room.drop == 2);
    CHECK(!talk.answer_text.empty());
    return true;
  };
  const Answer answer = talk.ask("three");
  CHECK(asked == 1);
  // Without the dropped turns the prompt takes 24 tokens, so that all 60 fit.
  CHECK(answer.generated.reason == FinishReason::Length);
  CHECK(talk.answer_text == std::string(60, 'x'));
  CHECK(talk.last() == talk.answer_text);
  CHECK(talk.dialogue.turns() == 1);

  // Without another turn to drop, the answer ends there and is kept.
  talk.dialogue.clear();
  talk.options.most_tokens = -1;
  CHECK(talk.ask("three").generated.reason == FinishReason::Context);
  CHECK(asked == 1);
  CHECK(talk.last() == talk.answer_text);
  CHECK(std::ssize(talk.dialogue.session().tokens()) == 100);
}

TEST_CASE("a message that is too long for the context is an error and can be undone") {
  OneTokenTalk talk(100);
  talk.ask("one");
  talk.dialogue.say(std::string(100, 'f'));
  talk.options.drop_turns = [](const Room&) { return true; };
  CHECK(has(error_text([&] { talk.answer(); }, Exit::Failed),
            "the message needs 120 tokens, with the system prompt and the beginning of an answer, "
            "but the context holds 100"));
  CHECK(talk.dialogue.undo());
  CHECK(talk.dialogue.turns() == 1);
  CHECK(talk.ask("two").generated.reason == FinishReason::Length);
}

TEST_CASE("when a template refuses a message, the dialogue is unchanged") {
  OneTokenTalk talk(
      200, {},
      "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
      "{% for m in messages %}{{ m.content }}{% if m.content == 'bad' %}"
      "{{ raise_exception('bad word') }}{% endif %}{% endfor %}");
  talk.ask("a");
  CHECK(has(error_text([&] { talk.dialogue.set_system("s"); }, Exit::Failed), "no system"));
  CHECK(has(error_text([&] { talk.dialogue.say("bad"); }, Exit::Failed), "bad word"));
  CHECK(has(error_text(
                [&] {
                  talk.dialogue.replace({{"system", "s"}});
                },
                Exit::Failed),
            "no system"));
  CHECK(talk.dialogue.messages().size() == 2);
  CHECK(talk.dialogue.system() == "");
}

TEST_CASE("the system message can be set, changed and removed, and clearing keeps it") {
  OneTokenTalk talk(200);
  talk.ask("a");
  talk.dialogue.set_system("one");
  talk.dialogue.set_system("two");
  CHECK(talk.dialogue.system() == "two");
  CHECK(talk.dialogue.messages().size() == 3);
  talk.dialogue.clear();
  CHECK(talk.dialogue.messages().size() == 1);
  talk.dialogue.set_system("");
  CHECK(talk.dialogue.messages().empty());
  talk.ask("b");
  talk.dialogue.replace({{"user", "c"}});
  CHECK(talk.dialogue.awaits_answer());
  talk.answer();
  CHECK(talk.last() == "xxx");
}

}  // namespace
}  // namespace skald::test
