#include "engine/selftest/cases.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"

namespace skald::selftest {
namespace {

constexpr DType kTypes[] = {DType::F32, DType::F16, DType::BF16};

// Repeats a list of values without end. Several cycles whose lengths have no common divisor combine
// each setting with many others, without a case for every combination.
template <class T>
class Cycle {
 public:
  explicit Cycle(std::vector<T> values) : values_(std::move(values)) {}
  T next() { return values_[at_++ % values_.size()]; }

 private:
  std::vector<T> values_;
  size_t at_ = 0;
};

struct Shape {
  int64_t outs, ins;
};

}  // namespace

std::vector<ProductCase> product_cases(Extent extent) {
  std::vector<Shape> shapes = {{2, 1},     {2, 32},     {31, 33},    {33, 64},   {50, 100},
                               {66, 1088}, {258, 1024}, {136, 2112}, {2051, 96}, {128, 1056}};
  if (extent == Extent::Small) shapes = {{31, 33}, {34, 64}, {136, 1088}};
  std::vector<int> all_rows;
  for (int rows = 1; rows <= 17; ++rows) all_rows.push_back(rows);
  all_rows.insert(all_rows.end(), {33, 130});
  Cycle<int> rows(extent == Extent::Small ? std::vector<int>{1, 5, 17} : all_rows);
  Cycle<Activation> activations({Activation::Silu, Activation::GeluTanh});
  Cycle<float> scales({1, 0.22f, 1});

  std::vector<ProductCase> cases;
  const auto add = [&](ProductCase c) {
    if (c.ending == Ending::Gated) c.outs += c.outs % 2;
    if (c.ending == Ending::Add) c.scale = scales.next();
    c.activation = activations.next();
    cases.push_back(c);
  };
  for (DType type : kTypes) {
    for (Ending ending :
         {Ending::Store, Ending::Add, Ending::Gated, Ending::Logits, Ending::Activated}) {
      for (const bool norm : {false, true}) {
        for (const bool bias : {false, true}) {
          if (bias && ending == Ending::Logits) continue;
          for (const Shape& s : shapes) {
            add({type, s.outs, s.ins, rows.next(), ending, norm, bias});
          }
        }
      }
      if (extent == Extent::Small) continue;
      for (int r : all_rows) add({type, 136, 1088, r, ending});
    }
    if (extent == Extent::Small) continue;
    // Enough tiles that a ring of tile buffers is reused several times.
    add({type, 8200, 2112, 3, Ending::Store, true, true});
    add({type, 1064, 14336, 1, Ending::Add});
    if (type == DType::F32) continue;
    // gemv_sm90: many groups of rows for each block; some groups are taken dynamically by the first
    // free block.
    add({type, 10003, 192, 2, Ending::Store, true});
    add({type, 20000, 64, 9, Ending::Logits});
    // The activations of all rows need more shared memory than usual.
    add({type, 136, 4096, 12, Ending::Store, false, true});
    add({type, 136, 4096, 16, Ending::Add});
    add({type, 64, 14336, 5, Ending::Gated});
    // Normed rows that are too long for the registers of the kernel's threads.
    add({type, 66, 5120, 1, Ending::Store, true});
    add({type, 66, 5120, 3, Ending::Gated, true});
    add({type, 66, 8192, 1, Ending::Gated, true});
    add({type, 66, 8192, 3, Ending::Store, true});
  }
  return cases;
}

std::vector<ProductCase> block_product_cases(Extent extent) {
  std::vector<ProductCase> cases;
  Cycle<int> rows({1, 2, 7, 33, 5});
  for (const DTypeInfo& format : all_dtypes()) {
    if (format.block_elems == 1) continue;
    for (int64_t blocks : {1, 3, 33}) {
      if (blocks * format.block_elems > 2048) blocks = 8;
      for (int64_t outs : {1, 31, 50, 258}) {
        if (extent == Extent::Small && outs != 31) continue;
        cases.push_back(
            {format.type, outs, blocks * format.block_elems, rows.next(), Ending::Store});
      }
    }
  }
  return cases;
}

std::vector<ProductCase> device_block_cases(Extent extent) {
  std::vector<ProductCase> cases;
  // The value 1 is frequent because a single row has its own kernel.
  Cycle<int> few_rows({1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 1, 7, 1, 8, 1});
  std::vector<int> more_rows = {9, 16, 17, 32, 33, 64, 65, 128, 130, 256};
  if (extent == Extent::Small) more_rows = {33};
  Cycle<Ending> endings({Ending::Store, Ending::Add, Ending::Gated, Ending::Logits});
  Cycle<bool> norms({false, true, true, false, true});
  Cycle<bool> biases({false, true, false});
  Cycle<Activation> activations({Activation::Silu, Activation::GeluTanh, Activation::Silu});
  for (const DTypeInfo& format : all_dtypes()) {
    if (format.block_elems == 1) continue;
    const auto add_rows = [&](int64_t outs, int64_t ins, int rows) {
      ProductCase c{format.type, outs, ins, rows, endings.next()};
      c.norm = norms.next();
      c.bias = biases.next() && c.ending != Ending::Logits;
      if (c.ending == Ending::Add) c.scale = 0.22f;
      if (c.ending == Ending::Gated) c.outs += c.outs % 2;
      c.activation = activations.next();
      c.activations = DType::BF16;
      cases.push_back(c);
    };
    const auto add = [&](int64_t outs, int64_t ins) { add_rows(outs, ins, few_rows.next()); };
    // One block, fewer columns than a warp covers, several blocks for each warp, and remainders of
    // all of these.
    for (int64_t blocks : {1, 3, 9, 33}) {
      for (int64_t outs : {2, 31, 50, 258}) {
        if (extent == Extent::Small && (blocks != 9 || outs > 50)) continue;
        add(outs, blocks * format.block_elems);
      }
    }
    for (int rows : more_rows) add_rows(98, 1280, rows);
    for (int rows : {1, 5, 33}) {
      ProductCase c{format.type, 50, 1280, rows, Ending::Activated};
      c.norm = rows == 5;
      c.bias = rows != 5;
      c.activation = rows == 33 ? Activation::Silu : Activation::GeluTanh;
      c.activations = DType::BF16;
      cases.push_back(c);
    }
    if (extent == Extent::Small) continue;
    for (int rows = 1; rows <= 8; ++rows) add_rows(136, 2304, rows);
    add_rows(8200, 2048, 1);  // more groups of rows than any GPU has multiprocessors
    // Enough groups that some are taken dynamically by the first free block
    add_rows(20000, 512, 1);
    // Rows of many columns.
    for (int rows : {1, 3, 8}) {
      ProductCase c{format.type, 66, 14336, rows, Ending::Add};
      c.bias = rows == 8;
      c.activations = DType::BF16;
      cases.push_back(c);
    }
    // One normed row, loaded in three or four rounds of 2048 columns.
    for (int64_t ins : {5120, 8192}) {
      ProductCase c{format.type, 66, ins, 1, ins == 8192 ? Ending::Gated : Ending::Store};
      c.norm = true;
      c.activations = DType::BF16;
      cases.push_back(c);
    }
  }
  return cases;
}

std::vector<AttentionCase> attention_cases(Extent extent) {
  struct Heads {
    int heads, kv_heads;
  };
  Cycle<Heads> heads({{1, 1}, {4, 2}, {8, 2}, {8, 1}, {14, 2}});
  Cycle<int> windows({0, 0, 0, 33, 128, 0, 1});
  enum class Rotates { Half, Interleaved, Part, None };
  Cycle<Rotates> rotations({Rotates::Half, Rotates::Interleaved, Rotates::Half, Rotates::Part,
                            Rotates::Interleaved, Rotates::None});
  std::vector<int> dims = {16, 48, 64, 80, 96, 100, 128, 192, 256};
  std::vector<std::vector<Part>> steps = {
      // One row for each sequence: decode.
      {{0, 1}},
      {{1, 1}},
      {{31, 1}},
      {{33, 1}},
      {{64, 1}},
      {{65, 1}},
      {{511, 1}},
      {{4097, 1}},
      {{65, 1}, {0, 1}, {511, 1}, {33, 1}, {128, 1}},
      // Several rows for a sequence: prefill, also together with decode in one step.
      {{0, 31}},
      {{0, 130}},
      {{63, 2}},
      {{64, 65}},
      {{511, 33}},
      {{0, 5}, {65, 1}, {33, 17}, {200, 64}},
  };
  std::vector<Part> many(17);
  for (int i = 0; i < 17; ++i) many[static_cast<size_t>(i)] = {i * 13 % 97, 1};
  steps.push_back(many);
  if (extent == Extent::Small) {
    dims = {64, 100, 128};
    steps = {{{65, 1}, {0, 1}, {200, 1}}, {{0, 33}}, {{0, 5}, {65, 1}}};
  }

  std::vector<AttentionCase> cases;
  for (DType type : kTypes) {
    for (int dim : dims) {
      for (const std::vector<Part>& parts : steps) {
        const Heads h = heads.next();
        const Rotates rotates = rotations.next();
        AttentionCase c;
        c.type = type;
        c.spec = {h.heads, h.kv_heads, dim, 1 / std::sqrt(static_cast<float>(dim)), windows.next()};
        c.rope_pairs = rotates == Rotates::None ? 0 : rotates == Rotates::Part ? dim / 4 : dim / 2;
        c.interleaved = rotates == Rotates::Interleaved;
        c.parts = parts;
        cases.push_back(std::move(c));
      }
    }
    // Scores are about 1, so one cap bends them slightly and the other one strongly.
    Cycle<float> caps({30, 0.5f});
    for (int dim : dims) {
      for (const std::vector<Part>& parts : {steps.front(), steps.back()}) {
        AttentionCase c;
        c.type = type;
        c.spec = {4, 2, dim, 1 / std::sqrt(static_cast<float>(dim)), windows.next(), caps.next()};
        c.rope_pairs = dim / 2;
        c.interleaved = false;
        c.parts = parts;
        cases.push_back(std::move(c));
      }
    }
    // Queries that grow with their position, in decode and in a prompt, with and without norms.
    const std::vector<Part> apart = {{65, 1}, {0, 1}, {200, 1}}, together = {{0, 5}, {65, 33}};
    for (int dim : dims) {
      for (int i = 0; i < 4; ++i) {
        AttentionCase c;
        c.type = type;
        c.spec = {4, 2, dim, 1 / std::sqrt(static_cast<float>(dim)), windows.next()};
        c.spec.growth = {0.1f, 16};
        c.rope_pairs = dim / 2;
        c.interleaved = dim % 3 == 0;
        c.parts = i % 2 == 0 ? apart : together;
        c.head_norm = i / 2 == 1;
        cases.push_back(c);
        c.spec.growth = {};
        c.rope_pairs = dim / (i % 2 == 0 ? 4 : 2);
        c.norm_after_rope = true;
        if (c.head_norm) cases.push_back(std::move(c));
      }
    }
    for (int dim : dims) {
      for (size_t i = 0; i < steps.size(); i += dim == 64 ? 1 : 3) {
        const Heads h = heads.next();
        AttentionCase c;
        c.type = type;
        c.spec = {h.heads, h.kv_heads, dim, 1 / std::sqrt(static_cast<float>(dim)), windows.next()};
        if (i % 5 == 2) c.spec.softcap = 5;
        c.rope_pairs = dim / 2;
        c.interleaved = false;
        c.parts = steps[i];
        c.sinks = true;
        cases.push_back(std::move(c));
      }
    }
    // Normed values, values that are keys, and steps that append nothing; large heads too.
    std::vector<int> value_dims = dims;
    value_dims.insert(value_dims.end(), {258, 384, 512, 528});
    if (extent == Extent::Small) value_dims = {64, 512};
    const std::vector<std::vector<Part>> value_steps = {
        apart,      {{0, 1}},   {{1100, 1}, {64, 1}}, together, {{511, 33}, {3, 1}},
        {{199, 1}}, {{1023, 1}}};
    Cycle<Heads> value_heads({{4, 2}, {8, 1}, {16, 2}, {1, 1}, {10, 5}, {40, 2}});
    int first = 0;  // every other case of each dimension and step
    for (int dim : value_dims) {
      for (const std::vector<Part>& parts : value_steps) {
        first = 1 - first;
        for (int i = first; i < 6; i += 2) {
          const Heads h = value_heads.next();
          AttentionCase c;
          c.type = type;
          const float scale = 1 / std::sqrt(static_cast<float>(dim));
          c.spec = {h.heads, h.kv_heads, dim, scale, windows.next()};
          if (i == 5) c.spec.softcap = 5;
          c.rope_pairs = dim / 2;
          c.interleaved = false;
          c.parts = parts;
          c.head_norm = i < 4;
          c.v_norm = i == 0 || i == 1;
          c.values_are_keys = i == 1 || i == 2;
          c.reads = i == 3 || i == 4;
          c.sinks = i == 5;
          cases.push_back(std::move(c));
        }
      }
    }
    // Latents: all heads read one head of keys, which serves as values too.
    std::vector<int> latent_dims = {48, 320, 576};
    if (extent == Extent::Small) latent_dims = {320};
    Cycle<Heads> latent_heads({{20, 1}, {5, 1}, {128, 1}, {1, 1}, {40, 1}, {12, 3}});
    Cycle<int> latent_windows({0, 0, 0, 0, 40});
    Cycle<float> latent_caps({0, 0, 5});
    for (int dim : latent_dims) {
      for (const std::vector<Part>& parts : value_steps) {
        AttentionCase c;
        c.type = type;
        const Heads h = latent_heads.next();
        c.spec = {h.heads, h.kv_heads, dim, 1 / std::sqrt(static_cast<float>(dim))};
        c.spec.window = latent_windows.next();
        c.spec.softcap = latent_caps.next();
        c.spec.keys_serve = true;
        c.rope_pairs = dim / 8;
        c.interleaved = true;
        c.parts = parts;
        c.sinks = h.kv_heads > 1;
        cases.push_back(std::move(c));
      }
    }
    Cycle<float> rope_scales({1, 1.19f, 1});
    for (int dim : dims) {
      for (size_t i = 0; i < steps.size(); i += 4) {
        const Heads h = heads.next();
        const Rotates rotates = rotations.next();
        AttentionCase c;
        c.type = type;
        c.spec = {h.heads, h.kv_heads, dim, 1 / std::sqrt(static_cast<float>(dim)), windows.next()};
        c.rope_pairs = rotates == Rotates::None ? 0 : rotates == Rotates::Part ? dim / 4 : dim / 2;
        c.interleaved = rotates == Rotates::Interleaved;
        c.parts = steps[i];
        c.head_norm = true;
        c.rope_scale = rope_scales.next();
        cases.push_back(std::move(c));
      }
    }
  }
  return cases;
}

std::vector<PointwiseCase> pointwise_cases(Extent extent) {
  std::vector<int64_t> cols = {1, 31, 33, 64, 1000, 4104};
  if (extent == Extent::Small) cols = {33, 264};
  Cycle<int> rows({1, 2, 3, 17, 33});
  std::vector<PointwiseCase> cases;
  for (Pointwise op :
       {Pointwise::Embed, Pointwise::Norm, Pointwise::Gate, Pointwise::AddBias, Pointwise::Gather,
        Pointwise::ScaledEmbed, Pointwise::ScaledAdd, Pointwise::Cap, Pointwise::PostNorm,
        Pointwise::QkNorm, Pointwise::LayerNorm, Pointwise::BiasedLayerNorm, Pointwise::RowGate,
        Pointwise::SumOfNorms, Pointwise::GatedPart, Pointwise::CopyPart}) {
    const bool floats = op == Pointwise::Gather || op == Pointwise::ScaledAdd ||
                        op == Pointwise::Cap || op == Pointwise::SumOfNorms;
    for (DType type : kTypes) {
      if (floats && type != DType::F32) continue;
      for (int64_t c : cols) {
        // One number less its mean is 0: there is nothing to compare with.
        if (c == 1 && op == Pointwise::LayerNorm) continue;
        cases.push_back({op, type, rows.next(), c});
      }
    }
  }
  return cases;
}

int AttentionCase::rows() const {
  int sum = 0;
  for (const Part& part : parts) sum += part.rows;
  return sum;
}

bool AttentionCase::one_row_each() const {
  return std::all_of(parts.begin(), parts.end(), [](const Part& p) { return p.rows == 1; });
}

int AttentionCase::longest() const {
  int most = 0;
  for (const Part& part : parts) most = std::max(most, part.before + part.rows);
  return most;
}

std::string label(const ProductCase& c) {
  constexpr const char* kEndings[] = {"store", "add", "gated", "logits", "activated"};
  return concat(name(c.type), " [", c.outs, ", ", c.ins, "] x ", c.rows, " rows",
                c.norm ? ", norm" : "", c.bias ? ", bias" : "", ", ",
                kEndings[static_cast<size_t>(c.ending)],
                c.scale == 1 ? "" : concat(" times ", c.scale));
}

std::string label(const AttentionCase& c) {
  std::string parts;
  for (size_t i = 0; i < std::min<size_t>(c.parts.size(), 5); ++i) {
    parts += concat(i ? " " : "", c.parts[i].before, "+", c.parts[i].rows);
  }
  return concat(name(c.type), " ", c.spec.heads, "/", c.spec.kv_heads, " heads of ",
                c.spec.head_dim, ", ", c.rope_pairs, c.interleaved ? " interleaved" : "",
                " pairs, window ", c.spec.window,
                c.spec.softcap == 0 ? "" : concat(", cap ", c.spec.softcap),
                c.spec.growth.rate == 0 ? "" : ", growing queries",
                c.head_norm ? ", head norms" : "", c.norm_after_rope ? " after rope" : "",
                c.v_norm ? " and of values" : "", c.values_are_keys ? ", values are keys" : "",
                c.spec.keys_serve ? ", keys serve as values" : "",
                c.reads ? ", appends nothing" : "", c.sinks ? ", sinks" : "", ", tokens ", parts,
                c.parts.size() > 5 ? concat(" and ", c.parts.size() - 5, " more") : "");
}

std::string label(const PointwiseCase& c) {
  constexpr const char* kNames[] = {
      "embed",      "norm",         "gate",       "add_bias", "gather",     "scaled embed",
      "scaled add", "cap",          "post norm",  "qk norm",  "layer norm", "layer norm with bias",
      "row gate",   "sum of norms", "gated part", "copy part"};
  return concat(name(c.type), " ", kNames[static_cast<size_t>(c.op)], ", ", c.rows, " rows of ",
                c.cols);
}

}  // namespace skald::selftest
