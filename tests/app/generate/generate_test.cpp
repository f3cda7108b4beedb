#include "app/generate/generate.h"

#include "app/model/open.h"
#include "tests/app/models.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

// A model that says one token for ever, which a bias picks.
struct Talker {
  TempFolder folder;
  OpenedModel opened;
  ModelTokenizer tokens;
  std::unique_ptr<Executor> executor;

  explicit Talker(const std::string& piece, int64_t context = 64, int64_t rows = 8) {
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

struct Heard {
  std::string text;
  std::vector<std::string> pieces;
  std::vector<int32_t> ids;
  Generated generated;
};

Heard hear(const Talker& talker, Session session, GenerateOptions options) {
  Heard heard;
  options.stop_ids = talker.tokens.stop_ids;
  options.text = [&](std::string_view piece) {
    heard.text += piece;
    heard.pieces.emplace_back(piece);
  };
  options.token = [&](const Picked& picked) { heard.ids.push_back(picked.token); };
  heard.generated = generate(session, *talker.tokens.tokenizer, options);
  return heard;
}

TEST_CASE("generating ends after the asked number of tokens") {
  Talker talker("xy");
  for (const int64_t count : {0, 1, 5}) {
    const Heard heard = hear(talker, talker.session(kPiece), {.most_tokens = count});
    CHECK(heard.generated.reason == FinishReason::Length);
    CHECK(heard.generated.tokens == count);
    CHECK(heard.ids == std::vector<int32_t>(static_cast<size_t>(count), kPiece));
    CHECK(heard.pieces == std::vector<std::string>(static_cast<size_t>(count), "xy"));
  }
}

TEST_CASE("generating ends at a token that ends the text, which is told and not shown") {
  Talker talker("xy");
  const Heard heard = hear(talker, talker.session(kEos), {});
  CHECK(heard.generated.reason == FinishReason::Stop);
  CHECK(heard.generated.stop_id == kEos);
  CHECK(heard.generated.tokens == 1);
  CHECK(heard.text == "");
}

TEST_CASE("generating ends at a stop string across tokens") {
  Talker talker("xyz");
  const Heard heard = hear(talker, talker.session(kPiece), {.stops = {"q", "yzxyzx"}});
  CHECK(heard.generated.reason == FinishReason::Stop);
  CHECK(heard.generated.stop == "yzxyzx");
  CHECK(heard.generated.stop_id == -1);
  CHECK(heard.text == "x");
  CHECK(heard.generated.tokens == 3);
}

TEST_CASE("a stop string may hold the sign for broken bytes, that only the end brings") {
  Talker talker("x");
  const Heard heard = hear(talker, talker.session(kFirstByteToken + 0xe2),
                           {.stops = {"\xEF\xBF\xBD\xEF\xBF\xBD"}, .most_tokens = 2});
  CHECK(heard.generated.reason == FinishReason::Stop);
  CHECK(heard.text == "");
}

TEST_CASE("what a stop string held back is shown when the text ends otherwise") {
  Talker talker("xy");
  const Heard heard = hear(talker, talker.session(kPiece), {.stops = {"yxx"}, .most_tokens = 2});
  CHECK(heard.text == "xyxy");
  CHECK(heard.generated.reason == FinishReason::Length);
}

TEST_CASE("generating ends when the context is full") {
  Talker talker("xy", 10);
  const Heard heard = hear(talker, talker.session(kPiece), {});
  CHECK(heard.generated.reason == FinishReason::Context);
  CHECK(heard.generated.tokens == 8);  // after <s> and "a"
}

TEST_CASE("an interrupt is seen between tokens and between the parts of a long prompt") {
  Talker talker("xy");
  int asked = 0;
  const auto third = [&] { return ++asked == 3; };
  Heard heard = hear(talker, talker.session(kPiece), {.interrupted = third});
  CHECK(heard.generated.reason == FinishReason::Interrupted);
  CHECK(heard.text == "xyxy");
  asked = 0;
  heard = hear(talker, talker.session(kPiece, std::string(40, 'b')), {.interrupted = third});
  CHECK(heard.generated.reason == FinishReason::Interrupted);
  CHECK(heard.generated.tokens == 0);
}

}  // namespace
}  // namespace skald::test
