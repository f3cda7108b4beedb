// Tests where a Program is cut into shards, and that the parts of all ranks make the whole.
#include "engine/program/shard.h"

#include <map>

#include "tests/catch.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

Program shard_of(const Model& model, int rank, int of) {
  Model own = model;
  own.shard = {rank, of};
  return own.program();
}

template <class T>
std::vector<T> ops_of(const Program& program) {
  std::vector<T> found;
  for (const Op& op : program.ops) {
    if (const auto* match = std::get_if<T>(&op)) found.push_back(*match);
  }
  return found;
}

std::map<std::string, TensorView> views(const Program& program) {
  std::map<std::string, TensorView> by_name;
  for (const Weight& weight : program.weights) by_name[weight.name] = weight.view;
  return by_name;
}

TEST_CASE("a rank has a part of the heads, of the feed-forward and of the logits") {
  const Model model = random_llama({.layers = 1, .heads = 4, .kv_heads = 2, .head_dim = 64});
  const Program whole = model.program();
  const auto first = views(shard_of(model, 0, 2)), second = views(shard_of(model, 1, 2));
  CHECK(first.size() == whole.weights.size());
  for (const char* name : {"token_embd.weight", "blk.0.attn_norm.weight"}) {
    CHECK(first.at(name).data == second.at(name).data);
    CHECK(first.at(name).rows == views(whole).at(name).rows);
  }
  const TensorView q = views(whole).at("blk.0.attn_q.weight");
  CHECK(first.at("blk.0.attn_q.weight[0:128]").data == q.data);
  CHECK(second.at("blk.0.attn_q.weight[128:256]").data == q.row(128));
  CHECK(second.at("blk.0.attn_k.weight[64:128]").rows == 64);
  const TensorView down = views(whole).at("blk.0.ffn_down.weight");
  CHECK(second.at("blk.0.ffn_down.weight[:, 256:512]").data == down.data + 256 * 4);
  CHECK(second.at("blk.0.ffn_down.weight[:, 256:512]").row_bytes == down.row_bytes);
  CHECK(second.at("blk.0.attn_output.weight[:, 128:256]").cols == 128);
  const TensorView head = views(whole).at("output.weight");
  CHECK(first.at("output.weight[0:192]").data == head.data);
  CHECK(second.at("output.weight[192:300]").data == head.row(192));

  const Program shard = shard_of(model, 1, 2);
  CHECK(shard.shard == Shard{1, 2});
  CHECK(count_all_reduces(shard) == 2);
  const Attention attention = ops_of<Attention>(shard).front();
  CHECK(attention.spec.heads == 2);
  CHECK(attention.spec.kv_heads == 1);
  CHECK(shard.kv.front().kv_heads == 1);
  CHECK(ops_of<Rope>(shard).front().heads == 2);
  CHECK(shard.vocab() == whole.vocab());
  CHECK(shard.logits().first == 192);
}

TEST_CASE("logits are divided by 64 tokens, and the first rank has as many as any other") {
  using Borders = std::vector<int64_t>;
  CHECK(logit_borders(300, 2) == Borders{0, 192, 300});
  CHECK(logit_borders(300, 3) == Borders{0, 128, 256, 300});
  CHECK(logit_borders(128256, 4) == Borders{0, 32064, 64128, 96192, 128256});
  CHECK(logit_borders(300, 6).empty());
  CHECK(logit_borders(300, 1).empty());
  const Model model = random_llama({.layers = 1, .heads = 8, .kv_heads = 8});
  const Program shard = shard_of(model, 3, 8);
  CHECK(views(shard).at("output.weight").rows == 300);
  CHECK(!shard.logits().is_part());
}

TEST_CASE("the parts of all ranks are the whole, also where they differ in size") {
  const Model model = random_llama({.layers = 1, .heads = 6, .kv_heads = 3, .ffn_dim = 320});
  for (const int ranks : {2, 3}) {
    int heads = 0;
    int64_t columns = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Program shard = shard_of(model, rank, ranks);
      heads += ops_of<Attention>(shard).front().spec.heads;
      for (const auto& [name, view] : views(shard)) {
        if (name.starts_with("blk.0.ffn_down")) columns += view.cols;
      }
    }
    CHECK(heads == 6);
    CHECK(columns == 320);
  }
}

TEST_CASE("with fewer heads of keys than ranks, several ranks have the same one") {
  const Model model = random_llama({.layers = 1, .heads = 4, .kv_heads = 2});
  const auto name = [](int head) {
    return "blk.0.attn_k.weight[" + std::to_string(head * 64) + ":" +
           std::to_string((head + 1) * 64) + "]";
  };
  for (int rank = 0; rank < 4; ++rank) {
    const Program shard = shard_of(model, rank, 4);
    CHECK(views(shard).contains(name(rank / 2)));
    CHECK(ops_of<Attention>(shard).front().spec == [] {
      AttentionSpec spec{1, 1, 64};
      spec.scale = 0.125f;
      return spec;
    }());
  }
}

TEST_CASE("blocks of a format are not divided, and what cannot be cut every rank computes") {
  // A row of 512 columns has two blocks of 256. Three ranks cannot have one each.
  const Model model = random_llama({.type = DType::Q4_K, .layers = 1, .heads = 8, .kv_heads = 4});
  const Program halves = shard_of(model, 0, 2), thirds = shard_of(model, 0, 3);
  CHECK(count_all_reduces(halves) == 2);
  CHECK(count_all_reduces(thirds) == 0);
  CHECK(thirds.ops.size() == model.program().ops.size());
  // A norm over all heads needs them all.
  const Model normed = random_llama({.layers = 1, .qk_norm = QkNorm::Whole});
  const Program shard = shard_of(normed, 0, 2);
  CHECK(ops_of<Attention>(shard).front().spec.heads == 4);
  CHECK(count_all_reduces(shard) == 1);  // the feed-forward's
}

TEST_CASE("each rank has a part of every expert") {
  ExpertsConfig experts;
  experts.count = 4;
  experts.used = 2;
  experts.ffn_dim = 128;
  const Model model = random_llama({.layers = 1, .experts = experts});
  const Program shard = shard_of(model, 1, 2);
  const Experts op = ops_of<Experts>(shard).front();
  for (int e = 0; e < 4; ++e) {
    CHECK(shard.weight(op.of(op.gate, e)).view.rows == 64);
    CHECK(shard.weight(op.of(op.down, e)).view.cols == 64);
    CHECK(shard.weight(op.of(op.down, e)).name ==
          "blk.0.ffn_down_exps.weight[" + std::to_string(e) + "][:, 64:128]");
  }
  CHECK(shard.weight(op.router).view.rows == 4);
}

}  // namespace
}  // namespace skald::test
