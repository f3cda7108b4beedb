#include "tokenizer/files/hf_parts.h"

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

// The reference's table of punctuation is that of Unicode 8, with ASCII's symbols. Characters that
// became punctuation later are left out, and two that were punctuation then are put in.
constexpr std::string_view kPunctuation =
    R"([\p{P}$+<=>^`|~\x{166d}\x{111c9}](?<![)"
    R"(\x{61d}\x{9fd}\x{a76}\x{c77}\x{c84}\x{1b4e}\x{1b4f}\x{1b7d}-\x{1b7f})"
    R"(\x{2e43}-\x{2e5d}\x{10d6e}\x{10ead}\x{10f55}-\x{10f59}\x{10f86}-\x{10f89})"
    R"(\x{113d4}-\x{113d8}\x{1144b}-\x{1144f}\x{1145a}-\x{1145d}\x{11660}-\x{1166c})"
    R"(\x{116b9}\x{1183b}\x{11944}-\x{11946}\x{119e2}\x{11a3f}-\x{11a46})"
    R"(\x{11a9a}-\x{11aa2}\x{11b00}-\x{11b09}\x{11be1}\x{11c41}-\x{11c45})"
    R"(\x{11c70}\x{11c71}\x{11ef7}\x{11ef8}\x{11f43}-\x{11f4f}\x{11fff})"
    R"(\x{12ff1}\x{12ff2}\x{16d6d}-\x{16d6f}\x{16e97}-\x{16e9a}\x{16fe2})"
    R"(\x{1e5ff}\x{1e95e}\x{1e95f}]))";

Regex read_pattern(const JsonPlace& json) {
  json.know_only({"String", "Regex"});
  if (json.has("Regex")) return Regex(json["Regex"].text(), json.where());
  return Regex::literal(json["String"].text(), json.where());
}

SplitBehavior read_behavior(const JsonPlace& json) {
  const std::string& name = json.text();
  if (name == "Removed") return SplitBehavior::Removed;
  if (name == "Isolated") return SplitBehavior::Isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::MergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::MergedWithNext;
  if (name == "Contiguous") return SplitBehavior::Contiguous;
  unknown_hf_part(json, name);
}

PreTokenizer::Metaspace read_metaspace(const JsonPlace& json) {
  using Prefix = PreTokenizer::Metaspace::Prefix;
  json.know_only({"type", "replacement", "prepend_scheme", "split", "str_rep", "add_prefix_space"});
  PreTokenizer::Metaspace out;
  out.symbol = json.text_or("replacement", out.symbol);
  // Old files have a flag instead of a scheme.
  const bool prefix = json.boolean_or("add_prefix_space", true);
  const std::string scheme = json.text_or("prepend_scheme", prefix ? "always" : "never");
  if (scheme == "never") {
    out.prefix = Prefix::Never;
  } else if (scheme == "first") {
    out.prefix = Prefix::First;
  } else if (scheme != "always") {
    unknown_hf_part(json["prepend_scheme"], scheme);
  }
  return out;
}

// ByteLevel writes bytes as characters of the byte alphabet; steps after it see those.
class PreTokenizerReader {
 public:
  explicit PreTokenizerReader(PreTokenizer& out) : out_(out) {}

  bool byte_level() const { return byte_level_; }

  void read(const JsonPlace& json) {
    const std::string_view type = json["type"].text();
    if (type == "Sequence") {
      json.know_only({"type", "pretokenizers"});
      for (const JsonPlace& step : json["pretokenizers"].elements()) read(step);
    } else if (type == "ByteLevel") {
      read_byte_level(json);
    } else if (type == "Split") {
      json.know_only({"type", "pattern", "behavior", "invert"});
      split(read_pattern(json["pattern"]), read_behavior(json["behavior"]),
            json.boolean_or("invert", false));
    } else if (type == "Digits") {
      json.know_only({"type", "individual_digits"});
      const bool each = json.boolean_or("individual_digits", false);
      split(Regex(R"(\p{N})", json.where()),
            each ? SplitBehavior::Isolated : SplitBehavior::Contiguous);
    } else if (type == "Punctuation") {
      json.know_only({"type", "behavior"});
      split(Regex(kPunctuation, json.where()),
            json.has("behavior") ? read_behavior(json["behavior"]) : SplitBehavior::Isolated);
    } else if (type == "Metaspace") {
      refuse_after_bytes(json);
      const PreTokenizer::Metaspace step = read_metaspace(json);
      out_.add(step);
      if (json.boolean_or("split", true)) {
        split(Regex::literal(step.symbol, json.where()), SplitBehavior::MergedWithNext);
      }
    } else {
      unknown_hf_part(json, type);
    }
  }

 private:
  void read_byte_level(const JsonPlace& json) {
    json.know_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    refuse_after_bytes(json);
    if (json.boolean_or("add_prefix_space", true)) out_.add(PreTokenizer::PrefixSpace{});
    if (json.boolean_or("use_regex", true)) {
      split(Regex(kGpt2Pattern, json.where()), SplitBehavior::Isolated);
    }
    byte_level_ = true;
  }

  void split(Regex pattern, SplitBehavior behavior, bool invert = false) {
    if (byte_level_ && !in_alphabet_) out_.add(PreTokenizer::ByteAlphabet{});
    in_alphabet_ = byte_level_;
    out_.add(PreTokenizer::Split{std::move(pattern), behavior, invert});
  }

  void refuse_after_bytes(const JsonPlace& json) const {
    if (!byte_level_) return;
    fail(Exit::Model, json.where(), ": ", printable(json["type"].text(), 40),
         " after ByteLevel, which skald does not support; expected Split, Digits or Punctuation");
  }

  PreTokenizer& out_;
  bool byte_level_ = false;   // ByteLevel was read
  bool in_alphabet_ = false;  // and a step after it
};

void read_strip(const JsonPlace& json, BpeDecoder& out) {
  json.know_only({"type", "content", "start", "stop"});
  const int64_t start = json["start"].integer();
  if (json["content"].text() != " " || start < 0 || start > 1 || json["stop"].integer() != 0) {
    fail(Exit::Model, json.where(),
         ": strips something other than one space from the start of a text, which "
         "skald does not support");
  }
  out.strip_space = out.strip_space || start == 1;
}

void read_decoder_step(const JsonPlace& json, BpeDecoder& out, bool& byte_level) {
  const std::string_view type = json["type"].text();
  if (type == "Sequence") {
    json.know_only({"type", "decoders"});
    for (const JsonPlace& step : json["decoders"].elements()) {
      read_decoder_step(step, out, byte_level);
    }
  } else if (type == "ByteLevel") {
    byte_level = true;
  } else if (type == "Replace") {
    json.know_only({"type", "pattern", "content"});
    json["pattern"].know_only({"String"});
    out.space = json["pattern"]["String"].text();
    if (json["content"].text() != " " || out.space.empty()) {
      fail(Exit::Model, json.where(),
           ": replaces a text by something other than a space, which skald does "
           "not support");
    }
  } else if (type == "ByteFallback") {
    out.byte_fallback = true;
  } else if (type == "Strip") {
    read_strip(json, out);
  } else if (type == "Metaspace") {
    const PreTokenizer::Metaspace step = read_metaspace(json);
    out.space = step.symbol;
    out.strip_space = step.prefix != PreTokenizer::Metaspace::Prefix::Never;
  } else if (type != "Fuse") {
    unknown_hf_part(json, type);
  }
}

HfTemplate read_template(const JsonPlace& json) {
  json.know_only({"type", "single", "pair", "special_tokens"});
  HfTemplate out;
  bool text_seen = false;
  for (const JsonPlace& item : json["single"].elements()) {
    item.know_only({"SpecialToken", "Sequence"});
    if (item.has("Sequence")) {
      if (text_seen) fail(Exit::Model, item.where(), ": repeats the text");
      text_seen = true;
      continue;
    }
    std::string& place = text_seen ? out.after : out.before;
    if (!place.empty()) {
      fail(Exit::Model, item.where(),
           ": a second token on one side of the text, which skald does "
           "not support");
    }
    const std::string_view name = item["SpecialToken"]["id"].text();
    // The name inside the template; the template's special_tokens maps it to tokens.
    const JsonPlace tokens = json["special_tokens"][name]["tokens"];
    const auto list = tokens.is_null() ? std::vector<JsonPlace>{} : tokens.elements();
    if (list.size() > 1) {
      fail(Exit::Model, tokens.where(), ": has several tokens, which skald does not support");
    }
    place = list.empty() ? name : list[0].text();
  }
  if (!text_seen) fail(Exit::Model, json.where(), ": single: lacks the text");
  return out;
}

}  // namespace

void unknown_hf_part(const JsonPlace& json, std::string_view type) {
  fail(Exit::Model, json.where(), ": '", printable(type, 60), "', which skald does not support");
}

void read_hf_normalizer(const JsonPlace& json, Normalizer& out) {
  if (json.is_null()) return;
  const std::string_view type = json["type"].text();
  if (type == "Sequence") {
    json.know_only({"type", "normalizers"});
    for (const JsonPlace& step : json["normalizers"].elements()) read_hf_normalizer(step, out);
  } else if (type == "NFC") {
    out.add(UnicodeForm::Nfc);
  } else if (type == "NFD") {
    out.add(UnicodeForm::Nfd);
  } else if (type == "NFKC") {
    out.add(UnicodeForm::Nfkc);
  } else if (type == "NFKD") {
    out.add(UnicodeForm::Nfkd);
  } else if (type == "Prepend") {
    json.know_only({"type", "prepend"});
    out.add(Normalizer::Prepend{json["prepend"].text()});
  } else if (type == "Replace") {
    json.know_only({"type", "pattern", "content"});
    out.add(Normalizer::Replace{read_pattern(json["pattern"]), json["content"].text()});
  } else {
    unknown_hf_part(json, type);
  }
}

bool read_hf_pre_tokenizer(const JsonPlace& json, PreTokenizer& out) {
  PreTokenizerReader reader(out);
  if (!json.is_null()) reader.read(json);
  return reader.byte_level();
}

bool read_hf_decoder(const JsonPlace& json, BpeDecoder& out) {
  bool byte_level = false;
  if (json.is_null()) {
    fail(Exit::Model, json.where(),
         ": is null: its tokens would be joined by spaces, which skald "
         "does not support");
  }
  read_decoder_step(json, out, byte_level);
  return byte_level;
}

HfTemplate read_hf_post_processor(const JsonPlace& json) {
  if (json.is_null()) return {};
  const std::string_view type = json["type"].text();
  if (type == "TemplateProcessing") return read_template(json);
  if (type == "ByteLevel") return {};  // affects offsets only
  if (type != "Sequence") unknown_hf_part(json, type);
  HfTemplate out;
  for (const JsonPlace& step : json["processors"].elements()) {
    const HfTemplate found = read_hf_post_processor(step);
    if (found.before.empty() && found.after.empty()) continue;
    if (!out.before.empty() || !out.after.empty()) unknown_hf_part(step, "a second template");
    out = found;
  }
  return out;
}

}  // namespace skald
