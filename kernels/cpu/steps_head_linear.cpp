// A product per head: every head's leading values times that head's own rows of a weight; what of a head is left over
// is copied behind its product. Latent attention leads queries into the space of the cache with it, and values out.
//
// Head h has the `rows` rows from h * (all rows / heads) + first on. Directly, out = W_h x; transposed, out = W_hᵀ x,
// whose rows are dequantised one by one and added up, each once for a block of tokens.
#include <cstring>

#include "packing.h"
#include "steps.h"

namespace tessera {
namespace {

constexpr int kTransposedTokens = 16;  // their sums stay in the first-level cache while rows pass by

class HeadLinearStep final : public Step {
 public:
  HeadLinearStep(const Program& program, const HeadLinear& o, Domain domain)
      : o_(o),
        domain_(domain),
        weight_rows_(program.weight_at(o.weight).rows * program.weight_at(o.weight).count / o.heads),
        cols_(program.weight_at(o.weight).cols),
        x_head_(program.value_at(o.x).width / o.heads),
        out_head_(program.value_at(o.out).width / o.heads),
        packing_(program.kernels().matmul, cols_) {
    const MatmulKernels& kernels = program.kernels().matmul.types[static_cast<int>(program.weight_at(o.weight).type)];
    packing_.require(kernels.format);
    multiply_scratch_ = aligned_size(kernels.scratch_bytes(cols_));
  }

  Needs needs(const Program&, const RunShape& shape) const override {
    if (o_.transposed) return {0, aligned_size(sizeof(float) * static_cast<size_t>(cols_))};
    return {0, multiply_scratch_ + packing_.bytes(shape.rows(domain_))};
  }

  void run(const Run& run, Worker& worker) const noexcept override {
    const int rows = run.shape.rows(domain_);
    if (rows == 0) return;
    if (!o_.transposed) {
      worker.share(o_.heads, [&](int h) {
        multiply(run, worker, h, rows);
        copy_rest(run, h, 0, rows);
      });
      return;
    }
    const int blocks = (rows + kTransposedTokens - 1) / kTransposedTokens;
    worker.share(o_.heads * blocks, [&](int i) {
      const int head = i % o_.heads, first = i / o_.heads * kTransposedTokens;
      const int count = std::min(kTransposedTokens, rows - first);
      add_up(run, worker, head, first, count);
      copy_rest(run, head, first, count);
    });
  }

 private:
  int in() const { return o_.transposed ? o_.rows : cols_; }
  int out() const { return o_.transposed ? cols_ : o_.rows; }

  void multiply(const Run& run, Worker& worker, int head, int rows) const {
    uint8_t* const packed = worker.scratch() + multiply_scratch_;
    packing_.pack(run.value(o_.x) + static_cast<ptrdiff_t>(head) * x_head_, run.program.value_at(o_.x).width, nullptr,
                  rows, 0, rows, packed);
    const Weight& weight = run.program.weight_at(o_.weight);
    const ActivationFormat format = run.program.kernels().matmul.types[static_cast<int>(weight.type)].format;
    multiply_rows(run.program.kernels(), weight, 0, {head * weight_rows_ + o_.first, o_.rows},
                  packing_.find(packed, format, rows), rows,
                  run.value(o_.out) + static_cast<ptrdiff_t>(head) * out_head_, run.program.value_at(o_.out).width,
                  worker.scratch(), nullptr);
  }

  void add_up(const Run& run, Worker& worker, int head, int first, int count) const {
    const Weight& weight = run.program.weight_at(o_.weight);
    const auto dequantize = run.program.kernels().matmul.types[static_cast<int>(weight.type)].dequantize;
    auto* const row = reinterpret_cast<float*>(worker.scratch());
    const uint8_t* from = weight.data + weight.row_bytes * static_cast<size_t>(head * weight_rows_ + o_.first);
    for (int t = first; t < first + count; ++t)
      std::memset(run.row(o_.out, t) + static_cast<ptrdiff_t>(head) * out_head_, 0,
                  sizeof(float) * static_cast<size_t>(cols_));
    for (int r = 0; r < o_.rows; ++r, from += weight.row_bytes) {
      dequantize(from, row, cols_);
      for (int t = first; t < first + count; ++t)
        run.program.kernels().vector.add_scaled(row, run.row(o_.x, t)[static_cast<ptrdiff_t>(head) * x_head_ + r],
                                                run.row(o_.out, t) + static_cast<ptrdiff_t>(head) * out_head_, cols_);
    }
  }

  void copy_rest(const Run& run, int head, int first, int count) const {
    if (x_head_ == in()) return;
    for (int t = first; t < first + count; ++t)
      std::memcpy(run.row(o_.out, t) + static_cast<ptrdiff_t>(head) * out_head_ + out(),
                  run.row(o_.x, t) + static_cast<ptrdiff_t>(head) * x_head_ + in(),
                  sizeof(float) * static_cast<size_t>(x_head_ - in()));
  }

  HeadLinear o_;
  Domain domain_;
  int weight_rows_, cols_, x_head_, out_head_;
  Packing packing_;
  size_t multiply_scratch_ = 0;
};

}  // namespace

StepPointer make_head_linear_step(const Program& program, const HeadLinear& operation, Domain domain) {
  return std::make_unique<HeadLinearStep>(program, operation, domain);
}

}  // namespace tessera
