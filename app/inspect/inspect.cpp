// skald inspect: shows what a model's files contain, without loading the weights.
#include <functional>
#include <map>
#include <numeric>

#include "app/files/json.h"
#include "app/inspect/adapter_report.h"
#include "app/inspect/shape_text.h"
#include "app/model/chat_template.h"
#include "app/model/open.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "app/terminal/table.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/files/gguf.h"

namespace skald {
namespace {

std::string_view activation_name(Activation activation) {
  switch (activation) {
    case Activation::Silu:
      return "silu";
    case Activation::GeluTanh:
      return "gelu_tanh";
    case Activation::ClampedSwiglu:
      return "clamped_swiglu";
    case Activation::Sigmoid:
      return "sigmoid";
    case Activation::Identity:
      return "identity";
    case Activation::SquaredRelu:
      return "squared_relu";
  }
  return "";
}

struct InspectFlags {
  ModelFlags model;
  std::string path;
  bool json = false, tensors = false, metadata = false;
};

// The tokenizer, or the reason why it cannot be opened, which is no error here.
struct FoundTokenizer {
  ModelTokenizer tokens;
  std::string problem;
};

FoundTokenizer find_tokenizer(const OpenedModel& opened) {
  try {
    return {open_tokenizer(opened), ""};
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

Json templates_json(const OpenedModel& opened) {
  Json all = Json::array();
  for (const NamedTemplate& one : find_chat_templates(opened.path)) {
    all.push_back({{"name", one.name},
                   {"source", one.source},
                   {"kind", std::string(template_kind(one.text))},
                   {"bytes", one.text.size()}});
  }
  return all;
}

// "llama3 in tokenizer_config.json, 4614 bytes", for each template.
std::string templates_text(const OpenedModel& opened) {
  std::string text;
  for (const NamedTemplate& one : find_chat_templates(opened.path)) {
    text += concat(text.empty() ? "" : "; ", template_kind(one.text), " in ", one.source, ", ",
                   counted(one.text.size(), "byte"));
  }
  return text.empty() ? "none" : text;
}

int64_t elements(const Tensor& tensor) { return tensor.view.rows * tensor.view.cols; }

std::vector<int> layers_where(const ModelConfig& c, const std::function<bool(int layer)>& holds) {
  std::vector<int> layers;
  for (int layer = 0; layer < c.layers; ++layer) {
    if (holds(layer)) layers.push_back(layer);
  }
  return layers;
}

std::vector<int> windowed_layers(const ModelConfig& c) {
  return layers_where(c, [&](int layer) { return c.window_of(layer) != 0; });
}

std::vector<int> unrotated_layers(const ModelConfig& c) {
  return layers_where(c, [&](int layer) { return !c.rotates(layer); });
}

// The layers without experts.
std::vector<int> dense_layers(const ModelConfig& c) {
  return layers_where(c, [&](int layer) { return !c.has_experts(layer); });
}

std::vector<int> conv_layers(const ModelConfig& c) {
  return layers_where(c, [&](int layer) { return c.has_short_conv(layer); });
}

std::vector<int> delta_layers(const ModelConfig& c) {
  return layers_where(c, [&](int layer) { return c.has_delta(layer); });
}

std::vector<int> space_layers(const ModelConfig& c) {
  return layers_where(c, [&](int layer) { return c.has_space(layer); });
}

const char* name(QkNorm norm) {
  constexpr const char* kNames[] = {"none", "heads", "whole"};
  return kNames[static_cast<size_t>(norm)];
}

Json config_json(const ModelConfig& c) {
  return {{"architecture", c.architecture},
          {"layers", c.layers},
          {"loops", c.loops},
          {"norm_between_loops", c.loop_norm},
          {"dim", c.dim},
          {"ffn_dim", c.ffn_dim},
          {"heads", c.heads},
          {"kv_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"vocab", c.vocab},
          {"context", c.context},
          {"short_context", c.short_context},
          {"window", c.window},
          {"windowed_layers", windowed_layers(c)},
          {"norm_eps", c.norm_eps},
          {"gated_mlp", c.gated_mlp},
          {"activation", activation_name(c.activation)},
          {"rope_base", c.rope_base},
          {"rope_scaling", c.rope_scaling},
          {"rope_dims", 2 * c.rope.inv_freq.size()},
          {"rope_scale", c.rope.scale},
          {"window_rope_base", c.window_rope_base},
          {"unrotated_layers", unrotated_layers(c)},
          {"embedding_scale", c.embedding_scale},
          {"attention_scale", c.scale_of_scores()},
          {"residual_scale", c.residual_scale},
          {"logit_scale", c.logit_scale},
          {"query_growth", c.query_growth.rate},
          {"query_growth_length", c.query_growth.length},
          {"attention_softcap", c.attention_softcap},
          {"logit_softcap", c.logit_softcap},
          {"qk_norm", name(c.qk_norm)},
          {"norm_after_rope", c.norm_after_rope},
          {"tied_embeddings", c.tied},
          {"attention_bias", c.attention_bias},
          {"attention_output_bias", c.attention_output_bias},
          {"mlp_bias", c.mlp_bias},
          {"experts", c.experts.count},
          {"experts_used", c.experts.used},
          {"expert_ffn_dim", c.experts.ffn_dim},
          {"expert_weights_normalized", c.experts.normalized},
          {"shared_expert_ffn_dim", c.experts.shared_dim},
          {"shared_expert_gate", c.experts.shared_gate},
          {"dense_layers", dense_layers(c)},
          {"attention_gate", c.attention_gate},
          {"full_head_dim", c.full.head_dim},
          {"full_kv_heads", c.full.kv_heads},
          {"full_values_are_keys", c.full.values_are_keys},
          {"shared_kv_layers", c.shared_kv.layers},
          {"shared_kv_ffn_dim", c.shared_kv.ffn_dim},
          {"layer_embedding", c.layer_embedding},
          {"short_convolution_layers", conv_layers(c)},
          {"state_space_layers", space_layers(c)},
          {"state_space_heads", c.space.spec.heads},
          {"state_space_head_dim", c.space.spec.head_dim},
          {"state_space_groups", c.space.spec.groups},
          {"state_space_state_dim", c.space.spec.state_dim},
          {"latent", c.latent.rank},
          {"delta_net_layers", delta_layers(c)},
          {"delta_net_key_heads", c.delta.spec.key_heads},
          {"delta_net_value_heads", c.delta.spec.value_heads},
          {"delta_net_key_dim", c.delta.spec.key_dim},
          {"delta_net_value_dim", c.delta.spec.value_dim}};
}

Json tokenizer_json(const FoundTokenizer& found) {
  if (!found.tokens.tokenizer) return {{"problem", found.problem}};
  const Tokenizer& t = *found.tokens.tokenizer;
  const SpecialTokens& special = t.special();
  auto token = [&](int32_t id) -> Json {
    if (id < 0) return nullptr;
    return {{"id", id}, {"piece", std::string(t.piece(id))}};
  };
  Json stops = Json::array();
  for (int32_t id : found.tokens.stop_ids) stops.push_back(token(id));
  return {
      {"kind", std::string(t.name())}, {"vocab", t.vocab_size()},    {"bos", token(special.bos)},
      {"eos", token(special.eos)},     {"unk", token(special.unk)},  {"pad", token(special.pad)},
      {"add_bos", special.add_bos},    {"add_eos", special.add_eos}, {"stops", stops}};
}

std::map<std::string_view, std::pair<int, int64_t>> count_types(const WeightFile& file) {
  std::map<std::string_view, std::pair<int, int64_t>> types;  // name → tensors, bytes
  for (const Tensor& tensor : file.tensors()) {
    auto& [count, bytes] = types[name(tensor.view.type)];
    ++count;
    bytes += tensor.view.bytes();
  }
  return types;
}

int64_t count_elements(const WeightFile& file) {
  return std::accumulate(file.tensors().begin(), file.tensors().end(), int64_t{0},
                         [](int64_t sum, const Tensor& t) { return sum + elements(t); });
}

std::string report_json(const OpenedModel& opened, const FoundTokenizer& tokenizer) {
  const WeightFile& file = *opened.model.weights;
  Json report = {{"path", opened.path.string()},
                 {"format", opened.gguf ? "gguf" : "safetensors"},
                 {"family", std::string(opened.family)},
                 {"parameters", count_elements(file)},
                 {"bytes", file.bytes()},
                 {"config", config_json(opened.model.config)},
                 {"tokenizer", tokenizer_json(tokenizer)},
                 {"chat_templates", templates_json(opened)}};
  for (const auto& [type, counted] : count_types(file)) {
    report["types"][std::string(type)] = {{"tensors", counted.first}, {"bytes", counted.second}};
  }
  if (!opened.quantized_by.empty()) report["quantized_by"] = opened.quantized_by;
  report["tensors"] = Json::array();
  for (const Tensor& tensor : file.tensors()) {
    report["tensors"].push_back({{"name", tensor.name},
                                 {"shape", tensor.shape},
                                 {"type", std::string(name(tensor.view.type))},
                                 {"bytes", tensor.view.bytes()}});
  }
  if (opened.gguf) {
    for (const GgufValue& value : opened.gguf->metadata().values()) {
      report["metadata"][std::string(value.key)] = value.short_text(400);
    }
  }
  return dump(report, 2) + "\n";
}

std::string special_text(const Tokenizer& tokenizer, const char* what, int32_t id) {
  if (id < 0) return "";
  return concat(", ", what, " ", id, " ", printable(tokenizer.piece(id)));
}

// The tokens that end a text, without eos.
std::string stops_text(const ModelTokenizer& tokens) {
  std::string text;
  for (int32_t id : tokens.stop_ids) {
    if (id != tokens.tokenizer->special().eos) text += special_text(*tokens.tokenizer, "stop", id);
  }
  return text;
}

// " in 3 of 4 layers"; empty for all layers.
std::string layers_text(const std::vector<int>& some, int all) {
  return static_cast<int>(some.size()) == all
             ? ""
             : concat(" in ", some.size(), " of ", counted(all, "layer"));
}

std::string attention_text(const ModelConfig& c) {
  std::string text = concat(counted(c.heads, "head"), " of ", c.head_dim, ", ", c.kv_heads,
                            " for keys and values");
  const std::vector<int> windowed = windowed_layers(c);
  if (!windowed.empty()) {
    text += concat(", window ", c.window_of(windowed.front()), layers_text(windowed, c.layers));
  }
  if (c.latent.rank > 0) text += concat(", which are latents of ", c.latent.rank);
  if (c.qk_norm != QkNorm::None) text += ", norms of queries and keys";
  if (c.norm_after_rope) text += " after rope";
  if (c.attention_gate) text += ", gated";
  if (c.query_growth.rate != 0) {
    text += concat(", queries that grow every ", counted(c.query_growth.length, "token"));
  }
  if (c.attention_softcap != 0) text += concat(", scores capped at ", c.attention_softcap);
  if (c.full.head_dim > 0) {
    text += concat(
        "; without a window heads of ", c.full.head_dim, ", ", c.full.kv_heads,
        c.full.values_are_keys ? " for keys, which are the values too" : " for keys and values");
  }
  if (c.shared_kv.layers > 0) {
    text += concat("; the last ", counted(c.shared_kv.layers, "layer"),
                   " read keys and values of earlier ones");
  }
  return text;
}

// The line about layers with a recurrent state; empty for a model without them.
std::string recurrent_text(const ModelConfig& c) {
  const std::vector<int> convs = conv_layers(c);
  if (!convs.empty()) {
    return concat("\n  convolution over ", counted(c.short_conv.taps, "token"),
                  layers_text(convs, c.layers));
  }
  const std::vector<int> spaces = space_layers(c);
  if (!spaces.empty()) {
    const SpaceSpec& s = c.space.spec;
    return concat("\n  state space ", counted(s.heads, "state"), " of ", s.head_dim, " x ",
                  s.state_dim, ", ", counted(s.groups, "group"), layers_text(spaces, c.layers));
  }
  const std::vector<int> nets = delta_layers(c);
  if (nets.empty()) return "";
  const DeltaSpec& s = c.delta.spec;
  return concat("\n  delta nets  ", counted(s.value_heads, "state"), " of ", s.key_dim, " x ",
                s.value_dim, ", ", counted(s.key_heads, "head"), " of keys",
                layers_text(nets, c.layers));
}

std::string rope_text(const ModelConfig& c) {
  std::string text = concat("base ", c.rope_base, ", scaling ", c.rope_scaling);
  const size_t dims = 2 * c.rope.inv_freq.size();
  if (dims != static_cast<size_t>(c.head_dim)) text += concat(", ", dims, " dimensions of a head");
  if (c.rope.scale != 1) text += concat(", times ", c.rope.scale);
  if (!c.window_rope.inv_freq.empty()) {
    text += concat("; base ", c.window_rope_base, " in layers with a window");
  }
  const std::vector<int> unrotated = unrotated_layers(c);
  if (!unrotated.empty()) text += concat(", not", layers_text(unrotated, c.layers));
  return text;
}

std::string context_text(const ModelConfig& c) {
  const bool short_one = c.short_context > 0 && c.short_context < c.context;
  return concat(c.context, " tokens",
                short_one ? concat("; ", c.short_context,
                                   " by default, because a larger -c changes the rope of all "
                                   "positions")
                          : "");
}

// The scales that are not at their usual value.
std::string scales_text(const ModelConfig& c) {
  std::string text;
  const auto add = [&](const char* what, float scale, float usual) {
    if (scale != usual) text += concat(text.empty() ? "" : ", ", what, " ", scale);
  };
  add("embeddings", c.embedding_scale, 1);
  add("scores", c.attention_scale, 0);
  add("residuals", c.residual_scale, 1);
  add("logits", c.logit_scale, 1);
  return text.empty() ? "" : concat("\n  scales      ", text);
}

// The line about mixtures of experts; empty for a model without them.
std::string experts_text(const ModelConfig& c) {
  const ExpertsConfig& e = c.experts;
  if (e.count == 0) return "";
  const int dense = static_cast<int>(dense_layers(c).size());
  return concat(
      "\n  experts     ", e.used, " of ", e.count, " for a token, feed-forward ", e.ffn_dim,
      dense == 0 ? "" : concat(", in ", c.layers - dense, " of ", counted(c.layers, "layer")),
      e.normalized ? ", weights normalized to 1" : "",
      e.shared_dim == 0 ? "" : concat("; a shared expert, feed-forward ", e.shared_dim),
      e.shared_gate ? ", with a gate" : "");
}

std::string layers_line(const ModelConfig& c) {
  const int64_t last = c.shared_kv.ffn_dim;
  return concat(
      c.layers, c.loops > 1 ? concat(", run ", c.loops, " times") : "", ", width ", c.dim,
      ", feed-forward ", c.ffn_dim, c.gated_mlp ? "" : " without a gate",
      last > 0 && last != c.ffn_dim ? concat(", in the last layers ", last) : "",
      c.layer_embedding > 0 ? concat(", an embedding of ", c.layer_embedding, " for each") : "");
}

std::string report_text(const OpenedModel& opened, const FoundTokenizer& found,
                        const InspectFlags& flags) {
  const ModelConfig& c = opened.model.config;
  const WeightFile& file = *opened.model.weights;
  std::string out = concat(
      printable(opened.path.string()), "\n  family      ", opened.family, " (", c.architecture,
      ", ", opened.gguf ? concat("GGUF v", opened.gguf->version()) : "Hugging Face safetensors",
      opened.quantized_by.empty() ? "" : concat(", quantized by ", opened.quantized_by),
      ")\n  parameters  ", count_elements(file), " in ", size_text(file.bytes()),
      "\n  layers      ", layers_line(c), experts_text(c), "\n  attention   ", attention_text(c),
      recurrent_text(c), "\n  rope        ", rope_text(c), scales_text(c), "\n  context     ",
      context_text(c), "\n  vocabulary  ", c.vocab, c.tied ? ", the head is the embedding" : "",
      c.logit_softcap != 0 ? concat(", logits capped at ", c.logit_softcap) : "", "\n");
  if (found.tokens.tokenizer) {
    const Tokenizer& t = *found.tokens.tokenizer;
    const SpecialTokens& special = t.special();
    out += concat("  tokenizer   ", t.name(), ", ", t.vocab_size(), " pieces",
                  special_text(t, "bos", special.bos), special_text(t, "eos", special.eos),
                  special_text(t, "unk", special.unk), special_text(t, "pad", special.pad),
                  stops_text(found.tokens), special.add_bos ? ", begins with bos" : "",
                  special.add_eos ? ", ends with eos" : "", "\n");
  } else {
    out += concat("  tokenizer   none: ", found.problem, "\n");
  }
  out += concat("  chat        ", templates_text(opened), "\n");
  for (const auto& [type, found_of] : count_types(file)) {
    out += concat("  ", type, std::string(12 - std::min<size_t>(type.size(), 11), ' '),
                  counted(found_of.first, "tensor"), ", ", size_text(found_of.second), "\n");
  }
  if (flags.metadata && opened.gguf) {
    Table table{{"key", "type", "value"}, {}};
    for (const GgufValue& value : opened.gguf->metadata().values()) {
      table.rows.push_back({printable(value.key), value.type_text(), value.short_text()});
    }
    out += "\n" + to_text(table);
  }
  if (flags.tensors) {
    Table table{{"tensor", "type", "shape", "size"}, {}};
    for (const Tensor& tensor : file.tensors()) {
      table.rows.push_back({printable(tensor.name), std::string(name(tensor.view.type)),
                            shape_text(tensor.shape), size_text(tensor.view.bytes())});
    }
    out += "\n" + to_text(table);
  }
  return out;
}

int inspect(InspectFlags& flags) {
  name_model(flags.model.model, flags.path);
  if (!flags.model.pull && seems_an_adapter(flags.model.model)) {
    const LoraFile file = open_lora(flags.model.model);
    StandardOutput().write(flags.json ? adapter_json(file) : adapter_text(file, flags.tensors));
    return 0;
  }
  flags.model.headless = true;
  const OpenedModel opened = open_model(flags.model);
  const FoundTokenizer tokenizer = find_tokenizer(opened);
  StandardOutput().write(flags.json ? report_json(opened, tokenizer)
                                    : report_text(opened, tokenizer, flags));
  return 0;
}

}  // namespace

void add_inspect(Command& program) {
  Command& command = program.add_command(
      "inspect",
      "Shows what is in a model or a LoRA adapter. Prints configuration, tensors, formats and\n"
      "tokenizer. Reads only the headers of the files.",
      {"skald inspect model.gguf --tensors", "skald inspect folder/ --json | jq .config"});
  auto flags = std::make_shared<InspectFlags>();
  command.word("path", "[MODEL]", flags->path).check(not_empty());
  add_model_flag(command, flags->model);
  command.flag("--tensors", flags->tensors, "List every tensor").group("Output");
  command.flag("--metadata", flags->metadata, "List a GGUF's metadata").group("Output");
  command.flag("--json", flags->json, "Print everything as one JSON object").group("Output");
  command.action([=] { return inspect(*flags); });
}

}  // namespace skald
