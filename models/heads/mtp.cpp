// The layer that predicts a further token, in the files of Qwen3.5 and GLM-4.5 (MTP, "nextn"). It
// reads the embedding of the token that follows, and what the model has computed for the token
// before. Then it is a layer of the model's usual kind, with the model's head.
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "models/families/family.h"
#include "models/families/llama.h"
#include "models/families/shared/blocks.h"
#include "models/heads/heads.h"

namespace skald {
namespace {

std::string tensor(int layer, std::string_view part) {
  return concat("blk.", layer, ".nextn.", part, ".weight");
}

// The model's configuration, whose layer number `layers` is the predicting one: it has attention
// without a window, and experts if the model has some.
ModelConfig predictor_config(ModelConfig c) {
  c.delta.layers.clear();
  c.short_conv.layers.clear();
  if (!c.windows.empty()) c.windows.push_back(0);
  if (!c.unrotated.empty()) c.unrotated.push_back(false);
  if (!c.experts.dense.empty()) c.experts.dense.push_back(false);
  return c;
}

Program build(const ModelConfig& c, const WeightFile& file) {
  const int layer = c.layers;
  Blocks b(c, file);
  const ActId next = b.builder().act("next", c.dim);  // the norm of the embedding
  b.embed();
  b.norm(next, b.x(), layer, "nextn.enorm");
  b.builder().add(Given{b.x()});
  b.norm(b.h(), b.x(), layer, "nextn.hnorm");
  // One product with both norms side by side.
  const std::string both = tensor(layer, "eh_proj");
  const auto half = [&](int64_t first) {
    return b.builder().weight_cols(both, c.dim, 2 * c.dim, first, c.dim);
  };
  b.builder().add(Linear{b.x(), b.h(), half(c.dim), WeightId::None});
  b.builder().add(Linear{b.h(), next, half(0), WeightId::None});
  b.builder().add(Add{b.x(), b.h()});
  b.norm(b.h(), b.x(), layer, "attn_norm");
  b.attention(layer, b.h());
  b.add();
  b.feed_forward(layer, kLateFfnNorm);
  const std::string last = tensor(layer, "shared_head_norm");
  if (!file.find(last)) return std::move(b).finish();
  const std::string name = last.substr(0, last.rfind('.'));
  return std::move(b).finish({name});
}

}  // namespace

std::optional<OpenedHead> open_mtp(const OpenedModel& model) {
  const Family& family = *model.description;
  if (!family.predictor_reads) return {};
  OpenedModel opened = model;
  opened.model = {predictor_config(model.model.config),
                  tensors_of_layer(model, model.model.config.layers), build};
  if (!opened.model.weights->find(tensor(model.model.config.layers, "eh_proj"))) return {};
  opened.model.program();  // finds missing tensors and wrong shapes now
  return OpenedHead{std::move(opened),
                    {.reads = *family.predictor_reads, .gives = *family.predictor_reads}};
}

}  // namespace skald
