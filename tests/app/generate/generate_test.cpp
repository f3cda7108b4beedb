#include "app/generate/generate.h"

#include "app/model/open.h"
#include "tests/catch.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

// A model that generates the same token for ever. A logit bias chooses the token.
struct Repeater {
  TempFolder folder;
  OpenedModel opened;
  ModelTokenizer tokens;
  std::unique_ptr<Executor> executor;

  explicit Repeater(const std::string& piece, int64_t context = 64, int64_t rows = 8) {
    FlatModel flat;
    flat.extra_piece = piece;
    opened = open_model(folder.write("flat.gguf", flat_gguf(flat)));
    tokens = open_tokenizer(opened);
    executor = cpu::make_executor(opened.model, {.context = context, .rows = rows, .threads = 1});
  }

  Session session(int32_t token, const std::string& prompt = "a") {
    SamplingParams params;
    params.temperature = 0;
    params.logit_bias = {{token, 5.0f}};
    Session session(*executor, params);
    session.feed(tokens.tokenizer->encode(prompt));
    return session;
  }
};

constexpr int32_t kPiece = 259, kEos = 2;

struct Collected {
  std::string text;
  std::vector<std::string> pieces;
  std::vector<int32_t> ids;
  Generated generated;
};

Collected collect(const Repeater& repeater, Session session, GenerateOptions options,
                  std::vector<std::string> stops = {}) {
  Collected collected;
  options.stop_ids = repeater.tokens.stop_ids;
  options.part = [&](const AnswerPart& part) {
    collected.text += part.text;
    collected.pieces.push_back(part.text);
  };
  options.token = [&](const Picked& picked) { collected.ids.push_back(picked.token); };
  AnswerText text(*repeater.tokens.tokenizer, {.stops = std::move(stops)});
  collected.generated = generate(session, text, options);
  CHECK(text.content() == collected.text);
  return collected;
}

TEST_CASE("generation ends after the requested number of tokens") {
  Repeater repeater("xy");
  for (const int64_t count : {0, 1, 5}) {
    const Collected collected = collect(repeater, repeater.session(kPiece), {.most_tokens = count});
    CHECK(collected.generated.reason == FinishReason::Length);
    CHECK(collected.generated.tokens == count);
    CHECK(collected.ids == std::vector<int32_t>(static_cast<size_t>(count), kPiece));
    CHECK(collected.pieces == std::vector<std::string>(static_cast<size_t>(count), "xy"));
  }
}

TEST_CASE("generation ends at an end token, which is counted but not shown") {
  Repeater repeater("xy");
  const Collected collected = collect(repeater, repeater.session(kEos), {});
  CHECK(collected.generated.reason == FinishReason::Stop);
  CHECK(collected.generated.stop_id == kEos);
  CHECK(collected.generated.tokens == 1);
  CHECK(collected.text == "");
}

TEST_CASE("generation ends at a stop string that spans several tokens") {
  Repeater repeater("xyz");
  const Collected collected = collect(repeater, repeater.session(kPiece), {}, {"q", "yzxyzx"});
  CHECK(collected.generated.reason == FinishReason::Stop);
  CHECK(collected.generated.stop == "yzxyzx");
  CHECK(collected.generated.stop_id == -1);
  CHECK(collected.text == "x");
  CHECK(collected.generated.tokens == 3);
}

TEST_CASE(
    "a stop string may contain U+FFFD, which stands for broken bytes and appears only at the end") {
  Repeater repeater("x");
  const Collected collected = collect(repeater, repeater.session(kFirstByteToken + 0xe2),
                                      {.most_tokens = 2}, {"\xEF\xBF\xBD\xEF\xBF\xBD"});
  CHECK(collected.generated.reason == FinishReason::Stop);
  CHECK(collected.text == "");
}

TEST_CASE("text held back for a stop string is shown when the generation ends for another reason") {
  Repeater repeater("xy");
  const Collected collected =
      collect(repeater, repeater.session(kPiece), {.most_tokens = 2}, {"yxx"});
  CHECK(collected.text == "xyxy");
  CHECK(collected.generated.reason == FinishReason::Length);
}

TEST_CASE("generation ends when the context is full") {
  Repeater repeater("xy", 10);
  const Collected collected = collect(repeater, repeater.session(kPiece), {});
  CHECK(collected.generated.reason == FinishReason::Context);
  CHECK(collected.generated.tokens == 8);  // the context of 10, less <s> and "a"
}

TEST_CASE("an interrupt takes effect between tokens and between the chunks of a long prompt") {
  Repeater repeater("xy");
  int asked = 0;
  const auto third = [&] { return ++asked == 3; };
  Collected collected = collect(repeater, repeater.session(kPiece), {.interrupted = third});
  CHECK(collected.generated.reason == FinishReason::Interrupted);
  CHECK(collected.text == "xyxy");
  asked = 0;
  collected =
      collect(repeater, repeater.session(kPiece, std::string(40, 'b')), {.interrupted = third});
  CHECK(collected.generated.reason == FinishReason::Interrupted);
  CHECK(collected.generated.tokens == 0);
}

}  // namespace
}  // namespace skald::test
