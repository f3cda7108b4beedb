// Heads compute what their equations say, written down once more here, in double and without care
// for speed; and what is wrong with their files is an error.
#include "models/heads/heads.h"

#include <cmath>
#include <functional>
#include <numeric>

#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/eagle3_folder.h"
#include "tests/error_text.h"
#include "tests/paths.h"
#include "tests/recurrent_model.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

using Vector = std::vector<double>;

Vector row_of(const TensorView& view, int64_t row) {
  std::vector<float> values(static_cast<size_t>(view.cols));
  std::vector<std::byte> scratch;
  view.decode_row(row, values.data(), scratch);
  return Vector(values.begin(), values.end());
}

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Vector operator+(Vector a, const Vector& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Vector joined(Vector a, const Vector& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Vector part(const Vector& v, size_t first, size_t count) {
  const auto at = v.begin() + static_cast<std::ptrdiff_t>(first);
  return Vector(at, at + static_cast<std::ptrdiff_t>(count));
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// One layer with attention, from the tensors of a file.
class Reference {
 public:
  Reference(const OpenedModel& opened, std::string layer)
      : c_(opened.model.config), file_(*opened.model.weights), layer_(std::move(layer)) {}

  Vector product(const std::string& name, const Vector& in) const {
    const TensorView& view = tensor(name).view;
    Vector out;
    for (int64_t r = 0; r < view.rows; ++r) out.push_back(dot(row_of(view, r), in));
    return out;
  }
  Vector norm(const std::string& name, const Vector& in) const {
    const Vector weight = row_of(tensor(name).view, 0);
    const double factor =
        1 / std::sqrt(dot(in, in) / static_cast<double>(in.size()) + double{c_.norm_eps});
    Vector out;
    for (size_t i = 0; i < in.size(); ++i) out.push_back(in[i] * factor * weight[i]);
    return out;
  }
  Vector embedding(int32_t token) const { return row_of(tensor("token_embd.weight").view, token); }

  // Each head by itself. gates: q has a gate beside each head's query.
  Vector attention(const Vector& in, bool gates, bool norms) {
    const auto dim = static_cast<size_t>(c_.head_dim);
    const auto position = static_cast<int64_t>(keys_.size());
    const Vector q = product(layer_ + "attn_q.weight", in);
    keys_.emplace_back(), values_.emplace_back();
    const Vector k = product(layer_ + "attn_k.weight", in);
    const Vector v = product(layer_ + "attn_v.weight", in);
    for (size_t head = 0; head < static_cast<size_t>(c_.kv_heads); ++head) {
      Vector key = part(k, head * dim, dim);
      if (norms) key = norm(layer_ + "attn_k_norm.weight", key);
      keys_.back().push_back(rotated(key, position));
      values_.back().push_back(part(v, head * dim, dim));
    }
    Vector all;
    for (size_t head = 0; head < static_cast<size_t>(c_.heads); ++head) {
      Vector query = part(q, head * dim * (gates ? 2 : 1), dim);
      if (norms) query = norm(layer_ + "attn_q_norm.weight", query);
      query = rotated(query, position);
      const size_t kv = head / static_cast<size_t>(c_.heads / c_.kv_heads);
      double sum = 0;
      Vector out(dim);
      for (size_t t = 0; t < keys_.size(); ++t) {
        const double weight = std::exp(dot(query, keys_[t][kv]) / std::sqrt(double{1} * dim));
        sum += weight;
        for (size_t i = 0; i < dim; ++i) out[i] += weight * values_[t][kv][i];
      }
      for (size_t i = 0; i < dim; ++i) {
        out[i] *= (gates ? sigmoid(q[head * dim * 2 + dim + i]) : 1) / sum;
      }
      all = joined(std::move(all), out);
    }
    return product(layer_ + "attn_output.weight", all);
  }

  Vector feed_forward(const Vector& in) const {
    const Vector gate = product(layer_ + "ffn_gate.weight", in);
    Vector both = product(layer_ + "ffn_up.weight", in);
    for (size_t i = 0; i < both.size(); ++i) both[i] *= gate[i] * sigmoid(gate[i]);
    return product(layer_ + "ffn_down.weight", both);
  }

 private:
  const Tensor& tensor(const std::string& name) const {
    const Tensor* found = file_.find(name);
    INFO(name);
    REQUIRE(found);
    return *found;
  }
  Vector rotated(Vector head, int64_t position) const {
    const std::vector<float>& frequencies = c_.rope.inv_freq;
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const double angle = static_cast<double>(position) * double{frequencies[i]};
      double &a = head[i], &b = head[i + frequencies.size()];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = turned;
    }
    return head;
  }

  const ModelConfig& c_;
  const WeightFile& file_;
  std::string layer_;
  std::vector<std::vector<Vector>> keys_, values_;  // by position and head
};

std::unique_ptr<Executor> executor_of(const Model& model) {
  RunOptions options;
  options.threads = 1;
  options.exact = true;
  options.context = 64;
  return cpu::make_executor(model, options);
}

const std::vector<int32_t> kTokens = {3, 250, 77, 77, 9};

std::vector<float> some_numbers(size_t count) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

// Runs the rows in one step and in two, and compares their logits and features with `expected`,
// which gives both of a row.
using Expected = std::function<std::pair<Vector, Vector>(int32_t token, const Vector& given)>;
void compare(const OpenedHead& head, const std::function<Expected()>& begin) {
  const auto executor = executor_of(head.opened.model);
  const int64_t cols = executor->program().given_cols();
  const std::vector<float> given = some_numbers(kTokens.size() * static_cast<size_t>(cols));
  for (const size_t first : {kTokens.size(), size_t{2}}) {
    Sequence sequence = executor->new_sequence();
    const Expected expected = begin();
    for (size_t at = 0; at < kTokens.size();) {
      const size_t rows = std::min(first, kTokens.size() - at);
      const auto all = std::span(given).subspan(at * static_cast<size_t>(cols),
                                                rows * static_cast<size_t>(cols));
      const SeqRows part{&sequence, std::span(kTokens).subspan(at, rows), Want::EveryRow, all};
      executor->run({&part, 1});
      for (size_t row = 0; row < rows; ++row, ++at) {
        const Vector numbers(given.begin() + static_cast<std::ptrdiff_t>(at) * cols,
                             given.begin() + static_cast<std::ptrdiff_t>(at + 1) * cols);
        const auto [logits, features] = expected(kTokens[at], numbers);
        const auto same = [](std::span<const float> got, const Vector& wanted) {
          REQUIRE(got.size() == wanted.size());
          for (size_t i = 0; i < wanted.size(); ++i) {
            if (std::abs(double{got[i]} - wanted[i]) > 1e-4 * (1 + std::abs(wanted[i]))) {
              FAIL_CHECK("number " << i << " is " << got[i] << ", expected " << wanted[i]);
              return;
            }
          }
        };
        same(executor->features(head.kind.gives, static_cast<int64_t>(row), 1), features);
        same(executor->logits(static_cast<int64_t>(row)), logits);
      }
    }
  }
}

TEST_CASE("the layer that predicts a token computes what its equations say") {
  const TempFolder temp;
  const OpenedModel model = open_model(temp.write("mtp.gguf", RecurrentGguf().file(true)));
  CHECK(model.model.config.layers == RecurrentGguf::kLayers);
  const auto head = open_mtp(model);
  REQUIRE(head);
  CHECK(head->kind.reads == Features::Normed);
  compare(*head, [&]() -> Expected {
    const auto r = std::make_shared<Reference>(head->opened, "blk.3.");
    return [r](int32_t token, const Vector& given) {
      const Vector next = r->norm("blk.3.nextn.enorm.weight", r->embedding(token));
      const Vector before = r->norm("blk.3.nextn.hnorm.weight", given);
      Vector x = r->product("blk.3.nextn.eh_proj.weight", joined(next, before));
      x = x + r->attention(r->norm("blk.3.attn_norm.weight", x), true, true);
      x = x + r->feed_forward(r->norm("blk.3.post_attention_norm.weight", x));
      x = r->norm("blk.3.nextn.shared_head_norm.weight", x);
      return std::pair(r->product("output.weight", x), x);
    };
  });
}

TEST_CASE("a model without a layer that predicts tokens has no such head") {
  const TempFolder temp;
  CHECK(!open_mtp(open_model(temp.write("plain.gguf", RecurrentGguf().file()))));
  CHECK(!open_mtp(open_model(source_dir() / "models" / "demo")));
}

TEST_CASE("an EAGLE-3 head computes what its equations say") {
  const TempFolder temp;
  const OpenedModel model = open_model(source_dir() / "models" / "demo");
  for (const bool before : {false, true}) {
    CAPTURE(before);
    Eagle3Folder(Eagle3Changes::norm_before(before)).write(temp.path() / "head");
    CHECK(is_eagle3(temp.path() / "head"));
    const OpenedHead head = open_eagle3(temp.path() / "head", model);
    CHECK(head.taps == std::vector<int>{2, 4, 5});
    REQUIRE(head.kind.tokens.size() == 100);
    CHECK(head.kind.tokens[7] == Eagle3Folder::token_of(7));
    compare(head, [&]() -> Expected {
      const auto r = std::make_shared<Reference>(head.opened, "blk.0.");
      return [r, before](int32_t token, const Vector& given) {
        constexpr size_t kDim = Eagle3Folder::kDim;
        const Vector next = r->norm("blk.0.attn_norm.weight", r->embedding(token));
        Vector x = part(given, 0, kDim) + r->product("fc.weight", part(given, kDim, 3 * kDim));
        const Vector normed = r->norm("blk.0.hidden_norm.weight", x);
        if (before) x = normed;
        x = x + r->attention(joined(next, normed), false, false);
        x = x + r->feed_forward(r->norm("blk.0.ffn_norm.weight", x));
        return std::pair(r->product("output.weight", r->norm("output_norm.weight", x)), x);
      };
    });
  }
  CHECK(!is_eagle3(source_dir() / "models" / "demo"));
  CHECK(!is_eagle3(temp.path()));
}

TEST_CASE("broken EAGLE-3 heads are errors that say what is wrong") {
  const TempFolder temp;
  const OpenedModel model = open_model(source_dir() / "models" / "demo");
  const auto error = [&](const Eagle3Changes& changes) {
    Eagle3Folder(changes).write(temp.path() / "head");
    return error_text([&] { open_eagle3(temp.path() / "head", model); });
  };
  CHECK(has(error({.taps_width = 128}), "'fc.weight' has 128 columns, expected 768"));
  CHECK(has(error({.first_offset = -1}), "'d2t' maps token 0 to one outside of the model's 2048"));
  CHECK(has(error({.first_offset = 2048}), "'d2t' maps token 0"));
  CHECK(has(error({.offsets = false}), "tensor 'd2t' is missing"));
  const std::string ids = R"(, "eagle_aux_hidden_state_layer_ids": )";
  CHECK(has(error({.more_keys = ids + "[1, 3, 9]"}), "before layer 10"));
  CHECK(has(error({.more_keys = ids + "[1, 3, 2147483647]"}), "before layer 1048577"));
  CHECK(has(error({.more_keys = ids + "[1, 3]"}), "expected three layers"));
}

// Taps are the residual stream as an observer sees it.
TEST_CASE("taps are what the residual stream is before their layers") {
  OpenedModel model = open_model(source_dir() / "models" / "demo");
  model.model.taps = {1, 7};
  const auto executor = executor_of(model.model);
  const Program& program = executor->program();
  const int64_t dim = model.model.config.dim;
  std::vector<std::vector<float>> streams(2);
  std::vector<float> stream;
  size_t found = 0;
  executor->observe([&](const OpOutput& out) {
    if (out.name == "taps") streams[found++] = stream;
    if (out.name == program.act(program.stream()).name) {
      stream.assign(out.values.begin(), out.values.end());
    }
  });
  Sequence sequence = executor->new_sequence();
  const SeqRows part{&sequence, kTokens, Want::LastRow};
  executor->run({&part, 1});
  REQUIRE(found == 2);
  CHECK(streams[0] != streams[1]);
  for (int64_t row = 0; row < std::ssize(kTokens); ++row) {
    const auto taps = executor->features(Features::Taps, row, 1);
    REQUIRE(std::ssize(taps) == 2 * dim);
    for (int64_t i = 0; i < 2 * dim; ++i) {
      const auto& expected = streams[static_cast<size_t>(i / dim)];
      if (taps[static_cast<size_t>(i)] != expected[static_cast<size_t>(row * dim + i % dim)]) {
        FAIL("row " << row << ", number " << i);
      }
    }
  }
  model.model.taps = {8};
  CHECK(has(error_text([&] { model.model.program(); }), "the model has no layer 8"));
}

}  // namespace
}  // namespace skald::test
