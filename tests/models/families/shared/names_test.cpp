// Names of the layer that predicts a further token.
#include "models/families/shared/names.h"

#include "tests/catch.h"

namespace skald::test {
namespace {

TEST_CASE("the layer that predicts a token has the same names in every file") {
  const auto name = [](std::string_view hf_name) {
    return tensor_name(predictor_name(hf_name, 4));
  };
  CHECK(name("mtp.fc.weight") == "blk.4.nextn.eh_proj.weight");
  CHECK(name("mtp.pre_fc_norm_embedding.weight") == "blk.4.nextn.enorm.weight");
  CHECK(name("mtp.pre_fc_norm_hidden.weight") == "blk.4.nextn.hnorm.weight");
  CHECK(name("mtp.norm.weight") == "blk.4.nextn.shared_head_norm.weight");
  CHECK(name("mtp.layers.0.self_attn.q_proj.weight") == "blk.4.attn_q.weight");
  CHECK(name("mtp.layers.1.self_attn.q_proj.weight").empty());
  CHECK(name("mtp.something.weight").empty());
  CHECK(name("model.layers.4.eh_proj.weight") == "blk.4.nextn.eh_proj.weight");
  CHECK(name("model.layers.4.shared_head.norm.weight") == "blk.4.nextn.shared_head_norm.weight");
  CHECK(name("model.layers.2.mlp.up_proj.weight") == "blk.2.ffn_up.weight");
}

}  // namespace
}  // namespace skald::test
