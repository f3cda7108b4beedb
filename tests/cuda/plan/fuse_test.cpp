// Checks how the CUDA planner fuses the ops of each family's program, and which buffers and kernels
// follow. Needs no GPU.
#include "engine/base/error.h"
#include "models/open.h"
#include "models/random/random.h"
#include "tests/catch.h"
#include "tests/cuda/plan/plans.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"
#include "tests/golden.h"

namespace skald::test {
namespace {

cuda::FusedProgram fused_family(const Family& family, QkNorm qk_norm) {
  RandomLlama shape;
  shape.type = DType::BF16;
  shape.family = &family;
  shape.qk_norm = qk_norm;
  return cuda::fuse_program(random_llama(shape).program());
}

constexpr int64_t kDim = 64, kFfn = 128, kVocab = 40;

// The buffers of a hand-made layer, and the products that stand in it.
struct Layer {
  explicit Layer(const WeightFile& file) : b(file) {
    x = b.act("x", kDim), h = b.act("h", kDim), t = b.act("t", kDim);
    q = b.act("q", kDim), k = b.act("k", kDim), v = b.act("v", kDim);
    gate = b.act("gate", kFfn), up = b.act("up", kFfn);
    b.add(Embed{x, b.weight("embedding", kVocab, kDim)});
  }
  void norm(NormKind kind = NormKind::Rms) {
    b.add(Norm{h, x, b.weight("norm", 1, kDim), 1e-5f, kind});
  }
  void linear(ActId out, ActId in) {
    const int64_t rows = b.cols(out), cols = b.cols(in);
    const WeightId weight = b.weight(concat(rows, " x ", cols), rows, cols);
    b.add(Linear{out, in, weight, WeightId::None});
  }
  void attention(ActId in) {
    for (ActId out : {q, k, v}) linear(out, in);
    const AttentionSpec spec{1, 1, static_cast<int>(kDim), 0.125f};
    b.add(Attention{t, q, k, v, b.kv_layer({1, static_cast<int>(kDim)}), spec});
  }
  void gated(ActId in) {
    linear(gate, in), linear(up, in);
    b.add(GatedAct{gate, gate, up, Activation::Silu});
  }
  Program end(NormKind kind = NormKind::Rms) {
    norm(kind);
    b.add(Logits{h, b.weight("embedding", kVocab, kDim)});
    return std::move(b).finish();
  }

  ProgramBuilder b;
  ActId x, h, t, q, k, v, gate, up;
};

std::shared_ptr<MadeWeights> layer_weights() {
  auto file = std::make_shared<MadeWeights>();
  file->matrix("embedding", DType::BF16, kVocab, kDim);
  file->constant("norm", kDim);
  file->matrix("64 x 64", DType::BF16, kDim, kDim);
  file->matrix("128 x 64", DType::BF16, kFfn, kDim);
  file->matrix("64 x 128", DType::BF16, kDim, kFfn);
  return file;
}

}  // namespace

TEST_CASE("norms of query and key heads are fused into attention") {
  const cuda::FusedProgram fused = fused_family(kLlama, QkNorm::Heads);
  CHECK(fused.ops.size() == 1 + 2 * 5 + 1);
  for (const cuda::FusedAttention& op : ops_of<cuda::FusedAttention>(fused)) {
    REQUIRE(op.norm);
    CHECK(!op.norm->whole);
    CHECK(op.rope == 0);
    CHECK(fused.program.weight(op.norm->q).name.find("attn_q_norm") != std::string::npos);
    CHECK(fused.program.weight(op.norm->k).name.find("attn_k_norm") != std::string::npos);
  }
}

TEST_CASE("norms of heads after they rotate are fused into attention, if rope has no factor") {
  RandomLlama shape;
  shape.qk_norm = QkNorm::Heads;
  Model model = random_llama(shape);
  CHECK(
      !ops_of<cuda::FusedAttention>(cuda::fuse_program(model.program())).front().norm->after_rope);
  model.config.norm_after_rope = true;
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  for (const cuda::FusedAttention& op : ops_of<cuda::FusedAttention>(fused)) {
    REQUIRE(op.norm);
    CHECK(op.norm->after_rope);
    CHECK(op.rope == 0);
  }
  model.config.rope.scale = 1.5f;
  CHECK(has(error_text([&] { cuda::fuse_program(model.program()); }), "a factor of 1.5"));
}

TEST_CASE("queries that grow are fused into attention, if all their dimensions rotate") {
  RandomLlama shape;
  Model model = random_llama(shape);
  model.config.query_growth = {0.1f, 16};
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  CHECK(ops_of<cuda::FusedAttention>(fused).front().spec.growth.rate == 0.1f);
  model.config.rope.inv_freq.resize(4);
  CHECK(has(error_text([&] { cuda::fuse_program(model.program()); }),
            "of which 8 rotate; all must rotate"));
}

TEST_CASE("a norm after a product is fused into the product, whose result is f32") {
  const cuda::FusedProgram fused = fused_family(kGemma2, QkNorm::None);
  CHECK(fused.ops.size() == 1 + 2 * 5 + 1);
  int post_norms = 0;
  for (const cuda::FusedLinear& op : ops_of<cuda::FusedLinear>(fused)) {
    CHECK(!op.makes_copy);
    CHECK(!op.leaves_copy);
    if (!op.post_norm) continue;
    ++post_norms;
    CHECK(op.epilogue == cuda::Epilogue::AddTo);
    CHECK(op.out == fused.hidden);
    CHECK(fused.row_bytes(fused.product(op)) == 256 * 4);
  }
  CHECK(post_norms == 4);
  CHECK(fused.cols(fused.copy) == 0);
}

TEST_CASE(
    "a product without a norm before it reads a copy of the residual stream in the weights' type") {
  const cuda::FusedProgram fused = fused_family(kOlmo2, QkNorm::Whole);
  std::vector<std::string> copies;
  for (const cuda::FusedLinear& op : ops_of<cuda::FusedLinear>(fused)) {
    copies.push_back(op.makes_copy ? "makes" : op.leaves_copy ? "leaves" : "");
    const bool takes = op.in == fused.copy;
    CHECK(takes == (op.epilogue == cuda::Epilogue::Gated || op.parts.size() == 3));
  }
  // The products of a layer in order: query, key and value; attention output; gate and up; down.
  // The last product is the logits, after a norm.
  CHECK(copies ==
        std::vector<std::string>{"makes", "leaves", "", "leaves", "", "leaves", "", "", ""});
  CHECK(fused.cols(fused.copy) == 256);
  for (const cuda::FusedAttention& op : ops_of<cuda::FusedAttention>(fused)) {
    REQUIRE(op.norm);
    CHECK(op.norm->whole);
  }
}

TEST_CASE("a norm that attention and feed-forward both read is computed once and kept") {
  const auto file = layer_weights();
  const NormKind kind = GENERATE(NormKind::Rms, NormKind::Layer);
  Layer layer(*file);
  layer.norm(kind);
  layer.gated(layer.h);
  layer.attention(layer.h);
  layer.linear(layer.k, layer.t);
  layer.b.add(Add{layer.x, layer.k});
  layer.linear(layer.k, layer.gate);
  layer.b.add(Add{layer.x, layer.k});
  const Program program = layer.end(kind);
  CHECK(fused_text(program) == "embed norm linear linear attention linear linear norm+linear");

  const cuda::FusedProgram fused = cuda::fuse_program(program);
  CHECK(ops_of<Norm>(fused).at(0).out == layer.h);
  for (const cuda::FusedLinear& op : ops_of<cuda::FusedLinear>(fused)) {
    CHECK(op.norms_inside() == (op.epilogue == cuda::Epilogue::Logits && kind == NormKind::Rms));
  }
  cuda::SizeOptions options;
  options.rows = 8;
  options.context = 64;
  options.multiprocessors = 132;
  // The embedding is the head too; a step reads one row of it in addition.
  CHECK(cuda::Sizes(fused, options).placement.device >= program.weight_bytes() - kDim * 2);
}

TEST_CASE("a norm that one product alone reads is a part of that product") {
  const auto file = layer_weights();
  Layer layer(*file);
  layer.norm();
  layer.attention(layer.h);
  layer.linear(layer.k, layer.t);
  layer.b.add(Add{layer.x, layer.k});
  layer.norm();
  layer.gated(layer.h);
  layer.linear(layer.k, layer.gate);
  layer.b.add(Add{layer.x, layer.k});
  CHECK(fused_text(layer.end()) ==
        "embed norm+linear attention linear norm+linear linear norm+linear");
}

TEST_CASE("a product and the activation of its result are one op") {
  const auto file = layer_weights();
  Layer layer(*file);
  const NormKind kind = GENERATE(NormKind::Rms, NormKind::Layer);
  layer.norm(kind);
  layer.linear(layer.up, layer.h);
  layer.b.add(Activate{layer.gate, layer.up, Activation::GeluTanh});
  layer.linear(layer.t, layer.gate);
  layer.b.add(Add{layer.x, layer.t});
  const Program program = layer.end();
  CHECK(fused_text(program) == "embed norm+linear linear norm+linear");
  const auto ops = ops_of<cuda::FusedLinear>(cuda::fuse_program(program));
  CHECK(ops.at(0).activates);
  CHECK(ops.at(0).activation == Activation::GeluTanh);
  CHECK(ops.at(0).epilogue == cuda::Epilogue::Store);
  CHECK(ops.at(0).out == layer.gate);
  CHECK(!ops.at(1).activates);
}

TEST_CASE("a product that is read before and after its activation is not fused with it") {
  const auto file = layer_weights();
  Layer layer(*file);
  layer.norm();
  layer.linear(layer.up, layer.h);
  layer.b.add(Activate{layer.gate, layer.up, Activation::Silu});
  layer.linear(layer.t, layer.up);
  CHECK(has(error_text([&] { cuda::fuse_program(layer.end()); }, Exit::Failed),
            "no kernel for op 3, activate"));
}

TEST_CASE("a shared expert reads the rows that the routed experts have normed") {
  RandomLlama shape;
  shape.type = DType::BF16;
  shape.experts = {8, 2, 96, true, {}, 160, true};
  Model model = random_llama(shape);
  const std::string layer = " norm+linear attention linear experts linear row_gate linear";
  CHECK(fused_text(model.program()) == "embed" + layer + layer + " norm+linear");
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  const ActId normed = ops_of<cuda::FusedExperts>(fused).at(0).norm.out;
  const auto ops = ops_of<cuda::FusedLinear>(fused);
  CHECK(ops.at(2).in == normed);
  CHECK(ops.at(2).epilogue == cuda::Epilogue::Gated);
  CHECK(ops.at(3).epilogue == cuda::Epilogue::AddTo);
  CHECK(ops_of<RowGate>(fused).at(0).in == normed);
  CHECK(ops_of<RowGate>(fused).at(0).x == ops.at(3).in);
  const cuda::Sizes sizes = sizes_of(model);
  CHECK(sizes.placement.device >= model.weights->bytes());
  CHECK(sizes.placement.device <= model.weights->bytes() + 256 * 60);

  model.config.experts.shared_gate = false;
  CHECK(has(fused_text(model.program()), "experts linear linear norm+linear"));
  const std::string few = kernels(model, 1);
  CHECK(has(few, "ffn_gate_shexp ffn_up_shexp [320, 256]: gemv_sm90\n"));
}

TEST_CASE("layers with sinks and no norm of heads have weights of their own") {
  const std::filesystem::path folder = find_golden("gpt_oss");
  if (folder.empty()) return;
  const cuda::FusedProgram fused = cuda::fuse_program(open_model(folder).model.program());
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    if (std::holds_alternative<cuda::FusedAttention>(fused.ops[i].op)) {
      CHECK(fused.first_with_weights[i] == i);
    }
  }
}

TEST_CASE(
    "a looped model's layers are on the GPU once, and the stream is normed between two runs") {
  const DType type = GENERATE(DType::BF16, DType::Q8_0);
  RandomLlama shape;
  shape.type = type;
  shape.qk_norm = QkNorm::Heads;
  Model model = random_llama(shape);
  const cuda::Sizes once = sizes_of(model);
  model.config.loops = 3;
  model.config.loop_norm = true;
  const std::string layer = " norm+linear attention linear norm+linear linear", run = layer + layer;
  CHECK(fused_text(model.program()) ==
        "embed" + run + " norm" + run + " norm" + run + " norm+linear");
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  CHECK(ops_of<Norm>(fused).at(0).out == fused.hidden);
  CHECK(fused.first_with_weights.at(0) == 0);
  for (size_t op = 0; op < 10; ++op) {
    CHECK(fused.first_with_weights.at(1 + op) == 1 + op);
    CHECK(fused.first_with_weights.at(12 + op) == 1 + op);
    CHECK(fused.first_with_weights.at(23 + op) == 1 + op);
  }
  CHECK(fused.first_with_weights.at(22) == 11);
  const cuda::Sizes sizes = sizes_of(model);
  CHECK(sizes.placement.device == once.placement.device + 256 * 4);  // the norm between two runs
  CHECK(sizes.page == 3 * once.page);

  cuda::SizeOptions options;
  options.rows = options.context = 64;
  options.multiprocessors = 132;
  options.copies = true;
  const int64_t copies = cuda::Sizes(fused, options).copies;
  model.config.loops = 1;
  CHECK(copies == cuda::Sizes(cuda::fuse_program(model.program()), options).copies);
  CHECK((copies > 0) == (type == DType::Q8_0));
}

TEST_CASE("ops that leave a buffer for a later op are not fused") {
  const auto file = layer_weights();
  Layer layer(*file);
  SECTION("the product that is added is read again") {
    layer.norm();
    layer.gated(layer.h);
    layer.linear(layer.t, layer.gate);
    layer.b.add(Add{layer.x, layer.t});
    layer.b.add(Add{layer.x, layer.t});
    CHECK(has(error_text([&] { cuda::fuse_program(layer.end()); }, Exit::Failed),
              "no kernel for op 6, add"));
  }
  SECTION("the second half of a gated activation is read again") {
    layer.norm();
    layer.gated(layer.h);
    layer.linear(layer.t, layer.up);
    CHECK(has(error_text([&] { cuda::fuse_program(layer.end()); }, Exit::Failed),
              "no kernel for op 4, gated_act"));
  }
  SECTION("values are read again after attention") {
    layer.norm();
    layer.attention(layer.h);
    layer.linear(layer.t, layer.v);
    CHECK(has(error_text([&] { cuda::fuse_program(layer.end()); }, Exit::Failed),
              "no kernel for op 5, attention"));
  }
  SECTION("a product is stored in the residual stream, which is float32") {
    layer.norm();
    layer.linear(layer.x, layer.h);
    CHECK(fused_text(layer.end()) == "embed norm linear norm+linear");
  }
}

TEST_CASE("gates of attention that have a matrix of their own are a product of their own") {
  const std::filesystem::path folder = find_golden("muse_glimmer");
  if (folder.empty()) return;
  const Program program = open_model(folder).model.program();
  const std::string text = fused_text(program);
  CHECK(has(text, "embed norm norm+linear norm+linear attention gated_act linear"));
  const cuda::FusedProgram fused = cuda::fuse_program(program);
  const auto linear = ops_of<cuda::FusedLinear>(fused);
  CHECK((linear.at(0).parts.size() == 1 && linear.at(0).out != fused.qkv));
  CHECK((linear.at(1).parts.size() == 3 && linear.at(1).out == fused.qkv));
  CHECK(ops_of<cuda::FusedAttention>(fused).at(0).norm->k == WeightId::None);
  CHECK(ops_of<GatedAct>(fused).at(0).gate == linear.at(0).out);
}

TEST_CASE("scales and caps are stored in the fused ops") {
  Model model = random_llama({});
  model.config.embedding_scale = 3;
  model.config.residual_scale = 0.5f;
  model.config.logit_scale = 0.25f;
  model.config.logit_softcap = 30;
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  CHECK(ops_of<Embed>(fused).at(0).scale == 3);
  for (const cuda::FusedLinear& op : ops_of<cuda::FusedLinear>(fused)) {
    CHECK(op.scale == (op.epilogue == cuda::Epilogue::AddTo    ? 0.5f
                       : op.epilogue == cuda::Epilogue::Logits ? 0.25f
                                                               : 1.0f));
  }
  CHECK(fused.head().softcap == 30);
}

TEST_CASE("a layer of experts is a single op, with its norm and its sum") {
  RandomLlama shape;
  shape.type = DType::BF16;
  shape.layers = 3;
  shape.experts = {8, 2, 96, true, {false, true, false}};
  Model model = random_llama(shape);
  model.config.residual_scale = 0.5f;
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  CHECK(fused.type == DType::BF16);  // although routers are f32
  CHECK(fused.ops.size() == 1 + 2 * 4 + 5 + 1);
  for (const cuda::FusedExperts& op : ops_of<cuda::FusedExperts>(fused)) {
    CHECK(op.out == fused.hidden);
    CHECK(op.norm.in == fused.hidden);
    CHECK(op.scale == 0.5f);
    const std::vector<cuda::ExpertStack> stacks = fused.stacks(op);
    REQUIRE(stacks.size() == 2);
    CHECK((stacks[0].outs == 2 * 96 && stacks[0].ins == 256 && stacks[0].parts.size() == 2));
    CHECK((stacks[1].outs == 256 && stacks[1].ins == 96));
  }
}

TEST_CASE("gate and up of different formats become two stacks") {
  const Model model = shape_model("qwen3-30b-a3b", "q4_k_m");
  Program program = model.program();
  for (const Op& op : program.ops) {
    const auto* experts = std::get_if<Experts>(&op);
    for (int e = 0; experts && e < experts->spec.count; ++e) {
      program.weights[static_cast<size_t>(experts->of(experts->up, e))].view.type = DType::Q6_K;
    }
  }
  const cuda::FusedProgram fused = cuda::fuse_program(std::move(program));
  const auto stacks = fused.stacks(ops_of<cuda::FusedExperts>(fused).at(0));
  REQUIRE(stacks.size() == 3);
  CHECK((stacks[0].format == DType::Q4_K && stacks[1].format == DType::Q6_K));
}

TEST_CASE("the experts' buffers have a row for each expert that a token uses") {
  const Model model = shape_model("qwen3-30b-a3b", "bf16");
  const cuda::Sizes sizes = sizes_of(model);
  CHECK(sizes.placement.device >= model.weights->bytes());
  CHECK(sizes.placement.device <= model.weights->bytes() + (1 << 20));
  CHECK(sizes.experts.gated == (64 * 8 + 1) * 768 * 2);  // and one for a shared expert
  CHECK(sizes.experts.sums == 64 * 8 * 2048 * 4);
  CHECK(sizes.experts.logits == 64 * 128 * 4);
  CHECK(sizes.experts.pairs == 0);
  const cuda::Sizes dense = sizes_of(shape_model("qwen3-8b", "bf16"));
  CHECK(dense.experts.lists() + dense.experts.rows() == 0);
}

TEST_CASE("the list of kernels names those of each family's own ops") {
  const Model gemma = shape_model("gemma-2-2b", "bf16");
  const std::string one = kernels(gemma, 1), many = kernels(gemma, 512);
  CHECK(has(one, "attn_output [2304, 2048]: gemv_sm90 + post_norm\n"));
  CHECK(has(one, "gemv_sm90 + cap_logits\n"));
  CHECK(has(one, "window 4096, cap 50: attention_decode\n"));
  CHECK(has(many, "ffn_down [2304, 9216]: gemm_cublas + post_norm\n"));
  CHECK(has(many, "x 256, cap 50: rope_append + attention_prefill\n"));

  const Model qwen = shape_model("qwen3-0.6b", "bf16");
  CHECK(has(kernels(qwen, 1), "x 128: attention_decode\n"));
  CHECK(has(kernels(qwen, 512), "x 128: norm_rope_append + attention_prefill_sm90\n"));

  const Model experts = shape_model("qwen3-30b-a3b", "bf16");
  CHECK(has(kernels(experts, 1),
            "ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps "
            "8 of 128 x ([1536, 2048], [2048, 768]): route + experts_row + "
            "experts_row (sum)\n"));
  CHECK(has(kernels(experts, 512),
            "route + sort_choices + place_rows + experts_many_sm90 + combine\n"));
  // Block formats of down want rows of their own, which gate and up cannot write.
  CHECK(has(kernels(shape_model("qwen3-30b-a3b", "q4_0"), 512),
            "sort_choices + place_rows + experts_many_sm90 + place_rows + experts_many_sm90 + "
            "combine\n"));
  // Quantized experts of one row: gate and up route the row, unless a shared expert of another size
  // reads the norm.
  CHECK(has(kernels(shape_model("qwen3-30b-a3b", "q4_k_m"), 1),
            "[2048, 768] Q4_K): router in gemv_q_experts_sm90 + gemv_q_experts_sm90 (sum)\n"));
  CHECK(has(kernels(shape_model("qwen1.5-moe-a2.7b", "q8_0"), 1),
            "route + gemv_q_experts_sm90 + gemv_q_experts_sm90 (sum)\n"));

  const Model coder = shape_model("starcoder2-3b", "bf16");
  CHECK(has(kernels(coder, 1), "ffn_up [12288, 3072]: layer_norm + gemv_sm90\n"));
  CHECK(has(kernels(coder, 512), "ffn_up [12288, 3072]: layer_norm + gemm_cublas + activate\n"));
  CHECK(has(kernels(shape_model("starcoder2-3b", "q4_k_m"), 1),
            "ffn_up [12288, 3072] Q4_K: layer_norm + gemv_q_sm90\n"));

  const Model shared = shape_model("qwen1.5-moe-a2.7b", "bf16");
  CHECK(has(kernels(shared, 1), "ffn_gate_shexp ffn_up_shexp [11264, 2048]: gemv_sm90\n"));
  CHECK(has(kernels(shared, 1), "ffn_gate_inp_shexp [2048]: row_gate\n"));

  RandomLlama shape;
  shape.type = DType::BF16;
  shape.family = &kOlmo2;
  shape.qk_norm = QkNorm::Whole;
  const std::string olmo = kernels(random_llama(shape), 1);
  CHECK(has(olmo, "to_type + gemv_sm90\n"));
  CHECK(has(olmo, "qk_norm + attention_decode\n"));
}

TEST_CASE("the weights of a family's own norms are counted") {
  for (const Family* family : {&kLlama, &kGemma2}) {
    RandomLlama shape;
    shape.family = family;
    shape.qk_norm = QkNorm::Heads;
    const Model model = random_llama(shape);
    const cuda::Sizes sizes = sizes_of(model);
    CHECK(sizes.placement.device >= model.weights->bytes());
    CHECK(sizes.placement.device <= model.weights->bytes() + 256 * 30);
  }
}

}  // namespace skald::test
