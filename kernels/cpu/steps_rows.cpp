// Steps that treat every row by itself: embed, rms_norm, rope, glu, add, scale, soft_cap, select_rows.
#include <cstring>
#include <numeric>

#include "steps.h"

namespace tessera {
namespace {

// Base of the row-wise steps: shares the rows out and calls `row` for each.
class RowStep : public Step {
 public:
  explicit RowStep(Domain domain) : domain_(domain) {}
  void run(const Run& run, Worker& worker) const noexcept override {
    const int rows = run.shape.rows(domain_);
    const int size = std::max(1, rows / (run.shape.threads * 4));
    worker.share((rows + size - 1) / size, [&](int i) {
      for (int r = i * size; r < std::min(rows, (i + 1) * size); ++r) row(run, r);
    });
  }

 protected:
  virtual void row(const Run& run, int r) const = 0;

 private:
  Domain domain_;
};

class EmbedStep final : public RowStep {
 public:
  EmbedStep(const Embed& o, Domain domain) : RowStep(domain), o_(o) {}

 private:
  void row(const Run& run, int r) const override {
    const Weight& table = run.program.weight_at(o_.table);
    const auto token = static_cast<size_t>(run.batch.tokens()[static_cast<size_t>(r)]);
    run.program.kernels().matmul.types[static_cast<int>(table.type)].dequantize(table.data + token * table.row_bytes,
                                                                                run.row(o_.out, r), table.cols);
  }
  Embed o_;
};

class NormStep final : public RowStep {
 public:
  NormStep(const RmsNorm& o, Domain domain) : RowStep(domain), o_(o) {}

 private:
  void row(const Run& run, int r) const override {
    const float* const weight = run.program.vector_at(o_.weight);
    const float* const x = run.row(o_.x, r);
    float* const out = run.row(o_.out, r);
    const int normalised = o_.group * o_.groups, width = run.program.value_at(o_.x).width;
    for (int i = 0; i < normalised; i += o_.group)
      run.program.kernels().vector.rms_norm(x + i, weight, out + i, o_.group, o_.epsilon);
    if (out != x && normalised < width)
      std::memcpy(out + normalised, x + normalised, sizeof(float) * static_cast<size_t>(width - normalised));
  }
  RmsNorm o_;
};

class RopeStep final : public RowStep {
 public:
  RopeStep(const Rope& o, Domain domain) : RowStep(domain), o_(o) {}

 private:
  void row(const Run& run, int r) const override {
    const float* const cosines = run.rope_rows[o_.table] + static_cast<ptrdiff_t>(r) * 2 * o_.pairs;
    float* const x = run.row(o_.x, r) + o_.offset;
    for (int h = 0; h < o_.heads; ++h)
      run.program.kernels().vector.rope(x + static_cast<ptrdiff_t>(h) * o_.head_dim, cosines, cosines + o_.pairs,
                                        o_.pairs, o_.halves);
  }
  Rope o_;
};

class GluStep final : public RowStep {
 public:
  GluStep(const Glu& o, Domain domain) : RowStep(domain), o_(o) {}

 private:
  void row(const Run& run, int r) const override {
    const VectorKernels& vector = run.program.kernels().vector;
    const int width = run.program.value_at(o_.out).width, gates = run.program.value_at(o_.gate).width;
    const float* const gate = run.row(o_.gate, r);
    const float* const up = run.row(o_.up, r);
    float* const out = run.row(o_.out, r);
    if (gates == width) return vector.glu(gate, up, out, width, o_.activation);
    const int span = width / gates;
    const float one = 1;
    for (int g = 0; g < gates; ++g) {
      float factor;
      vector.glu(gate + g, &one, &factor, 1, o_.activation);
      vector.scale(up + static_cast<ptrdiff_t>(g) * span, factor, out + static_cast<ptrdiff_t>(g) * span, span);
    }
  }
  Glu o_;
};

class AddStep final : public RowStep {
 public:
  AddStep(const Add& o, Domain domain) : RowStep(domain), o_(o) {}

 private:
  void row(const Run& run, int r) const override {
    run.program.kernels().vector.add(run.row(o_.a, r), run.row(o_.b, r), run.row(o_.out, r),
                                     run.program.value_at(o_.out).width);
  }
  Add o_;
};

class ScaleStep final : public RowStep {
 public:
  ScaleStep(const Scale& o, Domain domain) : RowStep(domain), o_(o) {}

 private:
  void row(const Run& run, int r) const override {
    float* const x = run.row(o_.x, r);
    run.program.kernels().vector.scale(x, o_.factor, x, run.program.value_at(o_.x).width);
  }
  Scale o_;
};

class SoftCapStep final : public RowStep {
 public:
  SoftCapStep(const SoftCap& o, Domain domain) : RowStep(domain), o_(o) {}

 private:
  void row(const Run& run, int r) const override {
    float* const x = run.row(o_.x, r);
    run.program.kernels().vector.soft_cap(x, o_.cap, x, run.program.value_at(o_.x).width);
  }
  SoftCap o_;
};

class SelectStep final : public RowStep {
 public:
  explicit SelectStep(const SelectRows& o) : RowStep(Domain::outputs), o_(o) {}

 private:
  void row(const Run& run, int r) const override {
    std::memcpy(run.row(o_.out, r), run.row(o_.x, run.batch.outputs()[static_cast<size_t>(r)]),
                sizeof(float) * static_cast<size_t>(run.program.value_at(o_.x).width));
  }
  SelectRows o_;
};

class SplitStep final : public RowStep {
 public:
  SplitStep(const SplitHeads& o, Domain domain) : RowStep(domain), o_(o) {}

 private:
  void row(const Run& run, int r) const override {
    const int head = std::accumulate(o_.sizes.begin(), o_.sizes.end(), 0);
    int from = 0;
    for (size_t i = 0; i < o_.outs.size(); from += o_.sizes[i++]) {
      int to = 0;
      for (size_t k = 0; k < i; ++k)
        if (o_.outs[k] == o_.outs[i]) to += o_.sizes[k] * o_.heads;
      for (int h = 0; h < o_.heads; ++h)
        std::memcpy(run.row(o_.outs[i], r) + to + static_cast<ptrdiff_t>(h) * o_.sizes[i],
                    run.row(o_.x, r) + from + static_cast<ptrdiff_t>(h) * head,
                    sizeof(float) * static_cast<size_t>(o_.sizes[i]));
    }
  }
  SplitHeads o_;
};

}  // namespace

StepPointer make_step(const Program& program, const Operation& operation) {
  const Domain domain = operation.domain;
  if (const auto* o = std::get_if<Embed>(&operation.body)) return std::make_unique<EmbedStep>(*o, domain);
  if (const auto* o = std::get_if<RmsNorm>(&operation.body)) return std::make_unique<NormStep>(*o, domain);
  if (const auto* o = std::get_if<Rope>(&operation.body)) return std::make_unique<RopeStep>(*o, domain);
  if (const auto* o = std::get_if<Glu>(&operation.body)) return std::make_unique<GluStep>(*o, domain);
  if (const auto* o = std::get_if<Add>(&operation.body)) return std::make_unique<AddStep>(*o, domain);
  if (const auto* o = std::get_if<Scale>(&operation.body)) return std::make_unique<ScaleStep>(*o, domain);
  if (const auto* o = std::get_if<SoftCap>(&operation.body)) return std::make_unique<SoftCapStep>(*o, domain);
  if (const auto* o = std::get_if<SelectRows>(&operation.body)) return std::make_unique<SelectStep>(*o);
  if (const auto* o = std::get_if<Linear>(&operation.body)) {
    FusedLinear description{};
    description.linear = *o;
    description.domain = domain;
    return make_linear_step(program, std::move(description));
  }
  if (const auto* o = std::get_if<HeadLinear>(&operation.body)) return make_head_linear_step(program, *o, domain);
  if (const auto* o = std::get_if<Attention>(&operation.body)) return make_attention_step(program, {*o, {}, {}});
  if (const auto* o = std::get_if<SplitHeads>(&operation.body)) return std::make_unique<SplitStep>(*o, domain);
  if (const auto* o = std::get_if<ShortConv>(&operation.body)) return make_short_conv_step(program, *o);
  if (const auto* o = std::get_if<DeltaRule>(&operation.body)) return make_delta_rule_step(*o);
  if (const auto* o = std::get_if<Router>(&operation.body)) return make_router_step(program, *o, domain);
  return make_experts_step(program, std::get<Experts>(operation.body), domain);
}

}  // namespace tessera
