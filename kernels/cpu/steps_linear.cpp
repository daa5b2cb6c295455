// Linear: pack the input once, then share the rows of all its matrices out. Optionally the input is normalised on the
// way, and a gated activation or a residual addition follows while the product is still in cache.
#include <cstring>

#include "packing.h"
#include "steps.h"

namespace tessera {

const uint8_t* rows_at(const Weight& weight, int matrix, int row) {
  return weight.data + weight.matrix_bytes() * static_cast<size_t>(matrix) +
         weight.row_bytes * static_cast<size_t>(row);
}

void multiply_rows(const Kernels& kernels, const Weight& weight, int matrix, RowRange range, const uint8_t* packed,
                   int tokens, float* out, ptrdiff_t out_stride, uint8_t* scratch, const uint8_t* next) {
  MatmulTask task{};
  task.weights = rows_at(weight, matrix, range.first);
  task.row_bytes = weight.row_bytes;
  task.rows = range.count;
  task.cols = weight.cols;
  task.packed = packed;
  task.tokens = tokens;
  task.out = out;
  task.out_stride = out_stride;
  task.scratch = scratch;
  task.next = next;
  task.readable = weight.bytes() - static_cast<size_t>(task.weights - weight.data);
  kernels.matmul.types[static_cast<int>(weight.type)].multiply(task);
}

namespace {

constexpr size_t kProductBytes = size_t{128} << 10;   // of one chunk: stays in the second-level cache
constexpr size_t kLeastChunkBytes = size_t{8} << 10;  // of weights: a grab costs about as much as reading 2 KiB

class LinearStep final : public Step {
 public:
  LinearStep(const Program& program, FusedLinear d)
      : d_(std::move(d)),
        cols_(program.weight_at(d_.linear.weights[0]).cols),
        packing_(program.kernels().matmul, cols_) {
    for (const Handle w : d_.linear.weights) {
      const MatmulKernels& kernels = program.kernels().matmul.types[static_cast<int>(program.weight_at(w).type)];
      packing_.require(kernels.format);
      row_step_ = std::max(row_step_, kernels.row_step);
      multiply_scratch_ = std::max(multiply_scratch_, aligned_size(kernels.scratch_bytes(cols_)));
    }
    if (d_.glu_out != kNone) {
      total_rows_ = program.weight_at(d_.linear.weights[0]).rows;
    } else {
      for (const Handle w : d_.linear.weights) total_rows_ += program.weight_at(w).rows;
    }
    Handles outs = d_.linear.outs;
    outs.push_back(d_.glu_out);
    outs.push_back(d_.residual_out);
    reads_what_it_writes_ = std::find(outs.begin(), outs.end(), d_.linear.x) != outs.end();
  }

  Needs needs(const Program& program, const RunShape& shape) const override {
    const int rows = shape.rows(d_.domain);
    const size_t product = has_product()
                               ? 2 * aligned_size(sizeof(float) * static_cast<size_t>(rows) *
                                                  static_cast<size_t>(chunk_rows(program, rows, shape.threads)))
                               : 0;
    return {packing_.bytes(rows), multiply_scratch_ + product + own_input_bytes()};
  }

  void run(const Run& run, Worker& worker) const noexcept override {
    const int rows = run.shape.rows(d_.domain);
    if (rows == 0) return;
    uint8_t* const own = worker.scratch() + multiply_scratch_;
    float* const product = reinterpret_cast<float*>(own + own_input_bytes());
    if (rows == 1) {  // packed by every thread for itself: as fast as waiting for another to do it
      pack_own(run, worker, own);
      if (reads_what_it_writes_) worker.barrier();
    } else {
      pack_shared(run, worker, rows, reinterpret_cast<float*>(own + packing_.bytes(1)));
      worker.barrier();
    }
    multiply(run, worker, rows, rows == 1 ? own : run.shared, product);
  }

 private:
  bool has_product() const { return d_.glu_out != kNone || d_.residual != kNone; }

  size_t own_input_bytes() const {
    const int rows = d_.has_norm ? grab_rows() : 0;
    return packing_.bytes(1) + aligned_size(sizeof(float) * static_cast<size_t>(rows) * static_cast<size_t>(cols_));
  }

  // At least 16 rows are normalised and packed at a time.
  int grab_rows() const { return packing_.tile() * ((15 + packing_.tile()) / packing_.tile()); }

  void normalise(const Run& run, int row, float* out) const {
    const float* const weight = run.program.vector_at(d_.norm.weight);
    run.program.kernels().vector.rms_norm(run.row(d_.linear.x, row), weight, out, cols_, d_.norm.epsilon);
  }

  void pack_own(const Run& run, Worker& worker, uint8_t* own) const {
    const float* x = run.value(d_.linear.x);
    if (d_.has_norm) {
      float* const normalised = reinterpret_cast<float*>(own + packing_.bytes(1));
      normalise(run, 0, normalised);
      if (d_.norm_kept && worker.index() == 0)
        std::memcpy(run.value(d_.norm.out), normalised, sizeof(float) * static_cast<size_t>(cols_));
      x = normalised;
    }
    packing_.pack(x, cols_, nullptr, 1, 0, 1, own);
  }

  void pack_shared(const Run& run, Worker& worker, int rows, float* own) const {
    const int grab = grab_rows();
    worker.share((rows + grab - 1) / grab, [&](int i) {
      const int first = i * grab, last = std::min(rows, first + grab);
      const size_t before = sizeof(float) * static_cast<size_t>(first) * static_cast<size_t>(cols_);
      const float* x = run.value(d_.linear.x);
      if (d_.has_norm) {
        float* const normalised = d_.norm_kept ? run.row(d_.norm.out, first) : own;
        for (int r = first; r < last; ++r) normalise(run, r, normalised + static_cast<ptrdiff_t>(r - first) * cols_);
        // Where row 0 would be; only rows from `first` on are read.
        x = reinterpret_cast<const float*>(reinterpret_cast<uintptr_t>(normalised) - before);
      }
      packing_.pack(x, cols_, nullptr, rows, first, last, run.shared);
    });
  }

  // Any choice gives the same bits, as long as it is a multiple of the kernels' own step.
  int chunk_rows(const Program& program, int rows, int threads) const {
    const size_t row_bytes = program.weight_at(d_.linear.weights[0]).row_bytes;
    int chunk = std::max(1, total_rows_ / (threads * 8));
    const int most = static_cast<int>(kProductBytes / sizeof(float) / static_cast<size_t>(std::max(1, rows)));
    const int least = static_cast<int>(kLeastChunkBytes / row_bytes);
    chunk = std::max(std::min(chunk, most), rows == 1 ? least : 1);
    return (chunk + row_step_ - 1) / row_step_ * row_step_;
  }

  // Matrices whose chunks are shared out: the second of a gated pair goes with the first.
  size_t shared_matrices() const { return d_.glu_out != kNone ? 1 : d_.linear.weights.size(); }
  int chunks_of(const Program& program, size_t m, int chunk) const {
    return (program.weight_at(d_.linear.weights[m]).rows + chunk - 1) / chunk;
  }
  int chunk_count(const Program& program, int chunk) const {
    int count = 0;
    for (size_t m = 0; m < shared_matrices(); ++m) count += chunks_of(program, m, chunk);
    return count;
  }

  void multiply(const Run& run, Worker& worker, int rows, const uint8_t* packed, float* product) const {
    const int chunk = chunk_rows(run.program, rows, run.shape.threads);
    const int count = chunk_count(run.program, chunk);
    const auto place = [&](int i) {  // of chunk i: its matrix and first row
      size_t m = 0;
      for (; i >= chunks_of(run.program, m, chunk); ++m) i -= chunks_of(run.program, m, chunk);
      return std::pair(m, i * chunk);
    };
    worker.share_parts(count, [&](int i) {
      const auto [m, first] = place(i);
      const RowRange range{first, std::min(chunk, run.program.weight_at(d_.linear.weights[m]).rows - first)};
      const uint8_t* next = nullptr;
      if (i + 1 < count) {
        const auto [next_m, next_first] = place(i + 1);
        next = rows_at(run.program.weight_at(d_.linear.weights[next_m]), 0, next_first);
      }
      if (d_.glu_out != kNone)
        gated_chunk(run, worker, rows, range, packed, product, next);
      else if (d_.residual != kNone)
        residual_chunk(run, worker, rows, range, packed, product, next);
      else
        product_chunk(run, worker, rows, m, range, packed, run.value(d_.linear.outs[m]) + range.first,
                      run.program.value_at(d_.linear.outs[m]).width, next);
    });
  }

  // One matrix's product with its bias.
  void product_chunk(const Run& run, Worker& worker, int rows, size_t m, RowRange range, const uint8_t* packed,
                     float* out, ptrdiff_t stride, const uint8_t* next) const {
    const Kernels& kernels = run.program.kernels();
    const Weight& weight = run.program.weight_at(d_.linear.weights[m]);
    const ActivationFormat format = kernels.matmul.types[static_cast<int>(weight.type)].format;
    multiply_rows(kernels, weight, 0, range, packing_.find(packed, format, rows), rows, out, stride, worker.scratch(),
                  next);
    if (d_.linear.biases[m] == kNone) return;
    const auto* bias = reinterpret_cast<const float*>(run.program.weight_at(d_.linear.biases[m]).data) + range.first;
    for (int r = 0; r < rows; ++r) kernels.vector.add(out + r * stride, bias, out + r * stride, range.count);
  }

  void gated_chunk(const Run& run, Worker& worker, int rows, RowRange range, const uint8_t* packed, float* product,
                   const uint8_t* next) const {
    float* const up =
        product +
        aligned_size(sizeof(float) * static_cast<size_t>(rows) * static_cast<size_t>(range.count)) / sizeof(float);
    const Weight& second = run.program.weight_at(d_.linear.weights[1]);
    product_chunk(run, worker, rows, 0, range, packed, product, range.count, rows_at(second, 0, range.first));
    product_chunk(run, worker, rows, 1, range, packed, up, range.count, next);
    for (int r = 0; r < rows; ++r) {
      const ptrdiff_t at = static_cast<ptrdiff_t>(r) * range.count;
      run.program.kernels().vector.glu(product + at, up + at, run.row(d_.glu_out, r) + range.first, range.count,
                                       d_.activation);
    }
  }

  void residual_chunk(const Run& run, Worker& worker, int rows, RowRange range, const uint8_t* packed, float* product,
                      const uint8_t* next) const {
    product_chunk(run, worker, rows, 0, range, packed, product, range.count, next);
    for (int r = 0; r < rows; ++r)
      run.program.kernels().vector.add(run.row(d_.residual, r) + range.first,
                                       product + static_cast<ptrdiff_t>(r) * range.count,
                                       run.row(d_.residual_out, r) + range.first, range.count);
  }

  FusedLinear d_;
  int cols_;
  Packing packing_;
  int row_step_ = 1, total_rows_ = 0;
  size_t multiply_scratch_ = 0;
  bool reads_what_it_writes_ = false;
};

}  // namespace

StepPointer make_linear_step(const Program& program, FusedLinear description) {
  return std::make_unique<LinearStep>(program, std::move(description));
}

}  // namespace tessera
