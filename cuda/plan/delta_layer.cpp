#include "cuda/plan/delta_layer.h"

namespace skald::cuda {
namespace {

// The products before a net, and the ops that take parts of their results.
class Products {
 public:
  Products(const Program& program, size_t first) : program_(program), end_(first) {
    for (; end_ < program.ops.size(); ++end_) {
      const Op& op = program.ops[end_];
      if (const auto* linear = std::get_if<Linear>(&op)) {
        if (!linears_.empty() && linear->in != linears_.front().op->in) return;
        linears_.push_back({linear, cols_});
        cols_ += static_cast<int>(program.act(linear->out).cols);
      } else if (const auto* part = std::get_if<HeadPart>(&op)) {
        parts_.push_back(part);
      } else {
        return;
      }
    }
  }

  size_t end() const { return end_; }
  bool empty() const { return linears_.empty(); }
  void take(DeltaLayer& layer) const {
    layer.products_in = linears_.front().op->in;
    for (const Placed& linear : linears_) {
      layer.parts.push_back(linear.op->weight);
      layer.biases.push_back(linear.op->bias);
    }
  }

  // Columns [to, to + groups * cols) of a buffer. They are a product's own, with groups one after
  // the other; or a part of each group of a product's.
  std::optional<HeadColumns> find(ActId buffer, int groups, int cols, int to) const {
    for (const Placed& linear : linears_) {
      if (linear.op->out == buffer) return HeadColumns{linear.at + to, cols, 0};
    }
    for (const HeadPart* part : parts_) {
      if (part->out != buffer || part->to != to) continue;
      if (part->heads != groups || part->cols != cols) return {};
      for (const Placed& linear : linears_) {
        if (linear.op->out != part->in) continue;
        const int width = static_cast<int>(program_.act(part->in).cols) / groups;
        return HeadColumns{linear.at + part->first, width, 0};
      }
    }
    return {};
  }

 private:
  struct Placed {
    const Linear* op;
    int at;  // the first column
  };

  const Program& program_;
  std::vector<Placed> linears_;
  std::vector<const HeadPart*> parts_;
  int cols_ = 0;
  size_t end_;
};

}  // namespace

std::optional<DeltaLayer> find_delta_layer(const Program& program, size_t first) {
  const Products products(program, first);
  const auto op = [&](size_t i) {
    return products.end() + i < program.ops.size() ? &program.ops[products.end() + i] : nullptr;
  };
  if (products.empty() || !op(3)) return {};
  const auto* conv = std::get_if<CausalConv>(op(0));
  const auto* net = std::get_if<DeltaNet>(op(1));
  const auto* norm = std::get_if<HeadNorm>(op(2));
  const auto* gate = std::get_if<GatedAct>(op(3));
  if (!conv || !net || !norm || !gate || conv->activation != Activation::Silu ||
      conv->bias != WeightId::None) {
    return {};
  }
  const DeltaSpec& s = net->spec;
  const bool chained = net->in == conv->out && norm->x == net->out && gate->up == net->out &&
                       gate->out == net->out && gate->activation == Activation::Silu &&
                       norm->heads == s.value_heads && norm->head_dim == s.value_dim;
  if (!chained) return {};

  const int shared = s.value_heads / s.key_heads;
  const int keys = static_cast<int>(s.keys());
  // Heads of values: `width` numbers each. In Turns, neighbouring heads belong to other groups.
  const auto heads = [&](ActId buffer, int width, int to) -> std::optional<HeadColumns> {
    std::optional<HeadColumns> found = products.find(buffer, s.key_heads, shared * width, to);
    if (!found) return {};
    found->member = width;
    if (s.order == HeadOrder::Blocks) return found;
    if (found->group != shared * width) return {};  // no file has turns within groups
    found->group = width;
    found->member = s.key_heads * width;
    return found;
  };
  const auto query = products.find(conv->in, s.key_heads, s.key_dim, 0);
  const auto key = products.find(conv->in, s.key_heads, s.key_dim, keys);
  const auto value = heads(conv->in, s.value_dim, 2 * keys);
  const auto gates = heads(gate->gate, s.value_dim, 0);
  const auto beta = heads(net->beta, 1, 0), decay = heads(net->decay, 1, 0);
  if (!query || !key || !value || !gates || !beta || !decay) return {};

  DeltaLayer layer = {};
  products.take(layer);
  layer.products_end = products.end();
  layer.last = products.end() + 3;
  FusedDelta& fused = layer.net;
  fused.out = net->out;
  fused.convolved = conv->out;
  fused.conv = conv->weight;
  fused.rate = net->rate;
  fused.bias = net->bias;
  fused.norm = norm->weight;
  fused.norm_eps = norm->eps;
  fused.spec = s;
  fused.columns = {*query, *key, *value, *gates, *beta, *decay};
  fused.taps = conv->taps;
  fused.log_rate = net->log_rate;
  return layer;
}

}  // namespace skald::cuda
