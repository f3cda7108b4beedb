#include "cuda/plan/fuse.h"

#include "cuda/plan/fuser.h"
#include "engine/base/error.h"

namespace skald::cuda {
namespace {

// True if the kernels of products have this activation.
bool products_gate(Activation activation) {
  return activation == Activation::Silu || activation == Activation::GeluTanh;
}

}  // namespace

Fused Fuser::run() {
  while (at_ < ops_.size()) {
    const auto* embed = get<Embed>(at_);
    if (embed && at_ == 0) {
      emit(*embed, 1);
    } else if (!qkv_attention() && !reading_attention() && !delta_net() && !state_space() &&
               !short_conv() && !routed_experts() && !experts_beside() && !layer_embeddings() &&
               !layer_embedding() && !linear_group() && !exchange() && !own_norm() && !row_gate() &&
               !gated_act() && !given() && !latent_attention() && !part() && !buffer_norm()) {
      fail(Exit::Failed, "CUDA has no kernel for op ", at_, ", ", op_name(ops_[at_]),
           ", where it stands in this model; use --device cpu");
    }
  }
  find_shared_experts();
  return {std::move(fused_), std::move(readers_)};
}

bool Fuser::read_after(size_t last, ActId buffer) const {
  for (size_t i = last + 1; i < ops_.size(); ++i) {
    const std::vector<ActId> inputs = op_inputs(ops_[i]);
    if (std::find(inputs.begin(), inputs.end(), buffer) != inputs.end()) return true;
    const ActId* out = op_output(ops_[i]);
    if (out && *out == buffer) return false;
  }
  return false;
}

bool Fuser::absorbs(size_t first, size_t last, ActId out, std::optional<ActId> kept) const {
  for (size_t i = first; i <= last; ++i) {
    const ActId* written = op_output(ops_[i]);
    if (written && *written != out && *written != kept && read_after(last, *written)) return false;
  }
  return true;
}

const Norm* Fuser::stream_norm(size_t index) const {
  const auto* norm = get<Norm>(index);
  return norm && norm->in == hidden_ && norm->out != hidden_ ? norm : nullptr;
}

bool Fuser::own_norm() {
  const Norm* norm = stream_norm(at_);
  const auto* in_place = get<Norm>(at_);
  if (!norm && in_place && in_place->in == hidden_ && in_place->out == hidden_) norm = in_place;
  if (!norm) return false;
  emit(*norm, 1);
  return true;
}

void Fuser::take_input(const Norm* norm, ActId in, FusedLinear& fused) {
  if (norm) fused.norm = *norm;
  fused.in = norm ? norm->in : in;
  if (fused.norm || in != hidden_) return;
  fused.in = buffers_.copy;
  auto* before = fused_.empty() ? nullptr : std::get_if<FusedLinear>(&fused_.back().op);
  if (before && before->post_norm && before->out == hidden_) {
    before->leaves_copy = true;
  } else {
    fused.makes_copy = true;
  }
}

bool Fuser::exchange() {
  const auto* reduce = get<AllReduce>(at_);
  if (!reduce || reduce->x == hidden_) return false;
  FusedExchange fused = {hidden_, reduce->x};
  const auto* norm = get<Norm>(at_ + 1);
  if (norm && (norm->in != reduce->x || norm->kind != NormKind::Rms)) norm = nullptr;
  const size_t sum = at_ + (norm ? 2 : 1);
  const auto* add = get<Add>(sum);
  if (add && add->x == hidden_ && add->y == (norm ? norm->out : reduce->x) &&
      (norm || add->keep == 1) && absorbs(at_, sum, hidden_)) {
    fused.scale = add->scale;
    fused.keep = add->keep;
    if (norm) fused.norm = *norm;
    emit(fused, sum + 1 - at_);
  } else {
    fused.out = reduce->x;
    emit(fused, 1);
  }
  return true;
}

bool Fuser::row_gate() {
  const auto* gate = get<RowGate>(at_);
  if (!gate || gate->x == hidden_ || gate->in == hidden_) return false;
  emit(*gate, 1);
  return true;
}

bool Fuser::gated_act() {
  const auto* gated = get<GatedAct>(at_);
  if (!gated || gated->out != gated->up || gated->out == hidden_ || gated->gate == hidden_) {
    return false;
  }
  emit(*gated, 1);
  return true;
}

bool Fuser::given() {
  const auto* given = get<Given>(at_);
  if (!given) return false;
  emit(*given, 1);
  return true;
}

bool Fuser::part() {
  const auto* part = get<HeadPart>(at_);
  if (!part || part->heads != 1 || part->out == hidden_ || part->in == layer_embeddings_) {
    return false;
  }
  emit(fused_part(*part), 1);
  return true;
}

bool Fuser::buffer_norm() {
  const auto* norm = get<Norm>(at_);
  if (!norm || norm->kind != NormKind::Rms || norm->in == hidden_ || norm->out != norm->in) {
    return false;
  }
  emit(BufferNorm{norm->out, norm->weight, norm->eps}, 1);
  return true;
}

bool Fuser::linear_group() {
  const Norm* norm = stream_norm(at_);
  const size_t first = at_ + (norm ? 1 : 0);
  if (const auto* logits = get<Logits>(first)) {
    if (!norm || norm->out != logits->in) return false;  // the input of such logits is float32
    FusedLinear fused;
    take_input(norm, logits->in, fused);
    fused.out = logits->in;
    fused.parts = {logits->weight};
    fused.biases = {WeightId::None};
    fused.epilogue = Epilogue::Logits;
    fused.scale = logits->scale;
    fused.softcap = logits->softcap;
    emit(std::move(fused), first + 1 - at_);
    return true;
  }
  const auto* linear = get<Linear>(first);
  if (!linear || linear->heads != 1 || (norm && norm->out != linear->in)) return false;
  FusedLinear fused;
  fused.parts = {linear->weight};
  fused.biases = {linear->bias};
  fused.out = linear->out;
  size_t last = first;

  const auto* up = get<Linear>(first + 1);
  const auto* gated = get<GatedAct>(first + 2);
  const auto* activate = get<Activate>(first + 1);
  const auto* post_norm = get<Norm>(first + 1);
  const size_t sum = first + (post_norm ? 2 : 1);
  const auto* add = get<Add>(sum);
  if (reduces(first + 1, linear->out)) {
    fused.epilogue = Epilogue::Floats;
  } else if (up && up->in == linear->in && gated && products_gate(gated->activation) &&
             gated->gate == linear->out && gated->up == up->out &&
             absorbs(first, first + 2, gated->out)) {
    fused.parts.push_back(up->weight);
    fused.biases.push_back(up->bias);
    fused.out = gated->out;
    fused.epilogue = Epilogue::Gated;
    fused.activation = gated->activation;
    last = first + 2;
  } else if (activate && activate->in == linear->out && absorbs(first, first + 1, activate->out)) {
    fused.out = activate->out;
    fused.activates = true;
    fused.activation = activate->activation;
    last = first + 1;
  } else if (add && add->x == hidden_ && add->y == (post_norm ? post_norm->out : linear->out) &&
             (!post_norm || (post_norm->in == linear->out && post_norm->kind == NormKind::Rms)) &&
             (post_norm || add->keep == 1) && absorbs(first, sum, add->x)) {
    fused.out = add->x;
    fused.epilogue = Epilogue::AddTo;
    fused.scale = add->scale;
    fused.keep = add->keep;
    if (post_norm) fused.post_norm = *post_norm;
    last = sum;
  }
  if (fused.out == hidden_ && fused.epilogue == Epilogue::Store) {
    // The residual stream cannot be read and written at once: a norm of it is an op of its own.
    if (norm || linear->in == hidden_ || fused.activates) return false;
    fused.epilogue = Epilogue::Floats;
  }
  const bool into_stream = fused.out == hidden_ && fused.epilogue == Epilogue::Gated;
  if (into_stream || !absorbs(at_, last, fused.out)) return false;
  take_input(norm, linear->in, fused);
  emit(std::move(fused), last + 1 - at_);
  return true;
}

Fused fuse(Program& program, FusedBuffers buffers) {
  check(std::holds_alternative<Embed>(program.ops.front()), "the first op embeds");
  refuse_ops_without_kernels(program);
  return Fuser(program, buffers).run();
}

}  // namespace skald::cuda
