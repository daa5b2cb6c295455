// Direct entry to the matmul kernels, for tests and for measuring; a forward pass goes through the program instead.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <ctime>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings.h"
#include "matmul.h"

namespace nb = nanobind;

namespace tessera {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using FloatArray = nb::ndarray<nb::numpy, float, nb::ndim<2>>;

struct AlignedDelete {
  void operator()(uint8_t* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
using Buffer = std::unique_ptr<uint8_t[], AlignedDelete>;

Buffer aligned_buffer(size_t bytes) {
  return Buffer(static_cast<uint8_t*>(::operator new[](bytes, std::align_val_t(64))));
}

Tier parse_tier(const std::string& name) {
  if (name == "auto") return best_tier();
  for (int t = 0; t < kTierCount; ++t)
    if (name == tier_name(static_cast<Tier>(t))) {
      if (static_cast<Tier>(t) > best_tier())
        throw std::invalid_argument("tier " + name + " cannot run on this machine");
      return static_cast<Tier>(t);
    }
  throw std::invalid_argument("unknown tier " + name);
}

const QuantTypeInfo& type_info(int type) {
  for (const QuantTypeInfo& info : kQuantTypes)
    if (static_cast<int>(info.type) == type) return info;
  throw std::invalid_argument("unknown weight type " + std::to_string(type));
}

// Bytes of one row, after checking that `rows` x `cols` of this type lie inside the buffer.
size_t checked_row_bytes(const QuantTypeInfo& info, size_t size, int rows, int cols) {
  if (rows < 1 || cols < 1 || cols % info.block_elements != 0)
    throw std::invalid_argument("rows and cols must be positive, cols a multiple of " +
                                std::to_string(info.block_elements));
  const size_t row_bytes = static_cast<size_t>(cols / info.block_elements) * info.block_bytes;
  if (row_bytes > size / rows)
    throw std::invalid_argument("weights hold " + std::to_string(size) + " bytes, fewer than " + std::to_string(rows) +
                                " rows of " + std::to_string(row_bytes));
  return row_bytes;
}

FloatArray owned_array(size_t rows, size_t cols, float*& data) {
  data = new float[rows * cols];
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<float*>(p); });
  return FloatArray(data, {rows, cols}, owner);
}

Buffer packed_activations(const ActivationKernels& kernels, const float* x, int tokens, int cols) {
  Buffer packed = aligned_buffer(kernels.packed_bytes(tokens, cols));
  kernels.pack(x, cols, nullptr, tokens, 0, tokens, cols, packed.get());
  return packed;
}

FloatArray dequantize(int type, Bytes weights, int rows, int cols, const std::string& tier) {
  const size_t row_bytes = checked_row_bytes(type_info(type), weights.size(), rows, cols);
  const MatmulKernels& kernels = matmul_table(parse_tier(tier)).types[type];
  float* out;
  FloatArray result = owned_array(rows, cols, out);
  nb::gil_scoped_release unlocked;
  for (int r = 0; r < rows; ++r)
    kernels.dequantize(weights.data() + r * row_bytes, out + static_cast<size_t>(r) * cols, cols);
  return result;
}

FloatArray matmul(int type, Bytes weights, int rows, int cols, Floats x, const std::string& tier) {
  const size_t row_bytes = checked_row_bytes(type_info(type), weights.size(), rows, cols);
  if (x.shape(0) < 1 || x.shape(0) > 1 << 20 || x.shape(1) != static_cast<size_t>(cols))
    throw std::invalid_argument("x must be [tokens >= 1, cols]");
  const int tokens = static_cast<int>(x.shape(0));
  const MatmulTable& table = matmul_table(parse_tier(tier));
  const MatmulKernels& kernels = table.types[type];
  float* out;
  FloatArray result = owned_array(tokens, rows, out);
  nb::gil_scoped_release unlocked;
  const Buffer packed = packed_activations(table.activations[static_cast<int>(kernels.format)], x.data(), tokens, cols);
  const Buffer scratch = aligned_buffer(kernels.scratch_bytes(cols));
  kernels.multiply(
      {weights.data(), row_bytes, rows, cols, packed.get(), tokens, out, rows, scratch.get(), weights.size()});
  return result;
}

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// CPU seconds of each of `repeats` products with matrices that follow one another in `weights`, around and around;
// packing counts apart, as the first number.
std::vector<double> matmul_seconds(int type, Bytes weights, int rows, int cols, Floats x, int repeats,
                                   const std::string& tier) {
  const size_t row_bytes = checked_row_bytes(type_info(type), weights.size(), rows, cols);
  if (x.shape(0) < 1 || x.shape(0) > 1 << 20 || x.shape(1) != static_cast<size_t>(cols) || repeats < 1)
    throw std::invalid_argument("x must be [tokens >= 1, cols], repeats positive");
  const int tokens = static_cast<int>(x.shape(0));
  const MatmulTable& table = matmul_table(parse_tier(tier));
  const MatmulKernels& kernels = table.types[type];
  const size_t matrix = row_bytes * rows, count = weights.size() / matrix;
  nb::gil_scoped_release unlocked;
  std::vector<float> out(static_cast<size_t>(tokens) * rows);
  std::vector<double> seconds = {thread_seconds()};
  const Buffer packed = packed_activations(table.activations[static_cast<int>(kernels.format)], x.data(), tokens, cols);
  seconds[0] = thread_seconds() - seconds[0];
  const Buffer scratch = aligned_buffer(kernels.scratch_bytes(cols));
  for (int i = 0; i < repeats; ++i) {
    const size_t at = i % count * matrix;
    const double begin = thread_seconds();
    kernels.multiply({weights.data() + at, row_bytes, rows, cols, packed.get(), tokens, out.data(), rows, scratch.get(),
                      weights.size() - at});
    seconds.push_back(thread_seconds() - begin);
  }
  return seconds;
}

FloatArray quantized_activations(int type, Floats x, const std::string& tier) {
  const QuantTypeInfo& info = type_info(type);
  const int tokens = static_cast<int>(x.shape(0)), cols = static_cast<int>(x.shape(1));
  if (tokens < 1 || cols < 1 || cols % info.block_elements != 0)
    throw std::invalid_argument("x must be [tokens, cols]");
  const MatmulTable& table = matmul_table(parse_tier(tier));
  const ActivationKernels& kernels = table.activations[static_cast<int>(table.types[type].format)];
  const Buffer packed = packed_activations(kernels, x.data(), tokens, cols);
  float* out;
  FloatArray result = owned_array(tokens, cols, out);
  for (int t = 0; t < tokens; ++t) kernels.unpack(packed.get(), tokens, t, cols, out + static_cast<size_t>(t) * cols);
  return result;
}

nb::dict quant_types() {
  nb::dict types;
  for (const QuantTypeInfo& info : kQuantTypes)
    types[nb::int_(static_cast<int>(info.type))] = nb::make_tuple(info.name, info.block_elements, info.block_bytes);
  return types;
}

}  // namespace

void bind_matmul(nb::module_& m) {
  m.attr("QUANT_TYPES") = quant_types();
  m.def(
      "tiers",
      [] {
        nb::list names;
        for (int t = 0; t <= static_cast<int>(best_tier()); ++t) names.append(tier_name(static_cast<Tier>(t)));
        return names;
      },
      "Names of the tiers this machine can run, lowest first.");
  m.def(
      "matmul_tier",
      [](int type, const std::string& tier) {
        type_info(type);
        return matmul_table(parse_tier(tier)).types[type].tier;
      },
      nb::arg("type"), nb::arg("tier") = "auto", "Name of the tier whose kernel a table uses for a weight type.");
  m.def("dequantize", &dequantize, nb::arg("type"), nb::arg("weights"), nb::arg("rows"), nb::arg("cols"),
        nb::arg("tier") = "auto", "Raw GGUF rows to float32 [rows, cols].");
  m.def("matmul", &matmul, nb::arg("type"), nb::arg("weights"), nb::arg("rows"), nb::arg("cols"), nb::arg("x"),
        nb::arg("tier") = "auto",
        "x float32 [tokens, cols] times raw GGUF rows: float32 [tokens, rows], on the calling thread.");
  m.def("matmul_seconds", &matmul_seconds, nb::arg("type"), nb::arg("weights"), nb::arg("rows"), nb::arg("cols"),
        nb::arg("x"), nb::arg("repeats"), nb::arg("tier") = "auto",
        "CPU seconds of packing x, then of each product with the matrices that follow one another in `weights`.");
  m.def("quantized_activations", &quantized_activations, nb::arg("type"), nb::arg("x"), nb::arg("tier") = "auto",
        "What the kernels for a weight type make of activations: the exact operand of the product, as float32.");
  m.def(
      "int8_peak",
      [](int64_t iterations, const std::string& tier) {
        const MatmulTable& table = matmul_table(parse_tier(tier));
        nb::gil_scoped_release unlocked;
        return table.int8_peak(iterations);
      },
      nb::arg("iterations"), nb::arg("tier") = "auto", "Runs the int8 peak loop; returns the multiply-adds done.");
}

}  // namespace tessera
