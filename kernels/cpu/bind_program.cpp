// Python's view of the thread pool, the batch and the program. Bound buffers are held through the buffer protocol, so
// a mapped file cannot be closed below a weight.
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings.h"
#include "program.h"
#include "thread_pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera {
namespace {

using Ints = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using IntTable = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatTable = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Flags = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Array>
auto copy(const Array& array) {
  return std::vector<std::remove_const_t<typename Array::Scalar>>(array.data(), array.data() + array.size());
}

// A copy, as a numpy array.
nb::object ints(const int32_t* values, std::initializer_list<size_t> shape) {
  size_t count = 1;
  for (const size_t n : shape) count *= n;
  auto* const copied = new std::vector<int32_t>(values, values + count);
  const nb::capsule owner(copied, [](void* p) noexcept { delete static_cast<std::vector<int32_t>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, int32_t>(copied->data(), shape.size(), shape.begin(), owner));
}

// A contiguous buffer of any element type; held until the last owner lets go (which happens with the GIL held).
struct Held {
  uint8_t* data;
  size_t size;
  Owner owner;
};

Held hold(nb::handle object, bool writable) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), view.get(), writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) != 0)
    throw nb::python_error();
  const Held held{static_cast<uint8_t*>(view->buf), static_cast<size_t>(view->len), nullptr};
  return {held.data, held.size, Owner(view.release(), [](const void* p) {
            auto* const buffer = static_cast<Py_buffer*>(const_cast<void*>(p));
            PyBuffer_Release(buffer);
            delete buffer;
          })};
}

nb::object rows_of(const Program& program, Handle value) {
  const Program::Rows rows = program.read(value);
  auto* const owner = new std::shared_ptr<Arena>(rows.owner);
  const nb::capsule keep(owner, [](void* p) noexcept { delete static_cast<std::shared_ptr<Arena>*>(p); });
  const size_t shape[2] = {static_cast<size_t>(rows.rows), static_cast<size_t>(rows.width)};
  if (rows.is_ids) return nb::cast(nb::ndarray<nb::numpy, const int32_t>(rows.data, 2, shape, keep));
  return nb::cast(nb::ndarray<nb::numpy, const float>(rows.data, 2, shape, keep));
}

// What a captured step finds at a fixed address, for n tokens: tokens, positions, sequences, outputs and order [n];
// spans [n, 3]: sequence, first place in `order`, tokens; slots [n, 2]; block tables [tables, n, blocks]. Spans that no
// sequence needs are empty; of slots and tables, what no kernel reads stays as it was.
void fill_block(const Batch& batch, const Words& words, int tables) {
  const auto n = static_cast<size_t>(batch.size()), count = static_cast<size_t>(tables);
  if (tables < batch.tables() || words.size() < 10 * n || (words.size() - 10 * n) % (count * n) != 0)
    throw std::invalid_argument("fill_block: the block is for other batches");
  const size_t blocks = (words.size() - 10 * n) / (count * n), held = static_cast<size_t>(batch.table_blocks());
  const auto sequences = static_cast<size_t>(batch.sequence_count());
  if (held > blocks || sequences > n || batch.outputs().size() != n)
    throw std::invalid_argument("fill_block: the batch needs a larger block");
  int32_t* to = words.data();
  for (const auto* part : {&batch.tokens(), &batch.positions(), &batch.sequences(), &batch.outputs(), &batch.order()})
    to = std::copy(part->begin(), part->end(), to);
  int32_t* span = std::fill_n(to, 3 * n, 0) - 3 * n;
  for (const Batch::Span& own : batch.spans()) {
    for (const int value : {own.sequence, own.first, own.count}) *span++ = value;
  }
  to += 3 * n;
  std::copy(batch.all_slots().begin(), batch.all_slots().end(), to);
  to += 2 * n;
  for (size_t table = 0; table < static_cast<size_t>(batch.tables()); ++table)
    for (size_t row = 0; row < sequences; ++row)
      std::copy_n(batch.block_table(static_cast<int>(row), static_cast<int>(table)), held,
                  to + (table * n + row) * blocks);
}

template <class Table>
void write_rows(Program& program, Handle value, const Table& rows, bool is_ids) {
  if (rows.shape(0) > (1u << 20) || rows.shape(1) > (1u << 24)) throw std::invalid_argument("write: too many rows");
  program.write(value, rows.data(), static_cast<int>(rows.shape(0)), static_cast<int>(rows.shape(1)), is_ids);
}

void bind_handles(nb::class_<Program>& program) {
  program.def("value", &Program::value, "width"_a, "ids"_a = false)
      .def("weight", &Program::weight, "type_id"_a, "rows"_a, "cols"_a, "count"_a = 1)
      .def(
          "bind_weight",
          [](Program& self, Handle handle, nb::handle buffer, int64_t offset) {
            const Held held = hold(buffer, false);
            self.bind_weight(handle, held.data, held.size, offset, held.owner);
          },
          "handle"_a, "buffer"_a, "offset"_a = 0)
      .def("kv_layer", &Program::kv_layer, "kv_heads"_a, "key_dim"_a, "value_dim"_a, "type_id"_a, "block_tokens"_a,
           "latent"_a = false, "table"_a = 0)
      .def(
          "bind_kv",
          [](Program& self, Handle handle, nb::handle keys, nb::handle values) {
            const Held k = hold(keys, true), v = values.is_none() ? Held{} : hold(values, true);
            self.bind_kv(handle, k.data, k.size, v.data, v.size, k.owner, v.owner);
          },
          "handle"_a, "keys"_a, "values"_a = nb::none())
      .def("state_layer", &Program::state_layer, "tail_values"_a, "state_values"_a)
      .def(
          "bind_state",
          [](Program& self, Handle handle, nb::handle tails, nb::handle states) {
            const Held t = hold(tails, true), s = hold(states, true);
            self.bind_state(handle, t.data, t.size, s.data, s.size, t.owner, s.owner);
          },
          "handle"_a, "tails"_a, "states"_a)
      .def("expert_mask", &Program::expert_mask, "experts"_a)
      .def(
          "set_expert_mask",
          [](Program& self, Handle handle, const Flags& present) {
            self.set_expert_mask(handle, std::vector<uint8_t>(present.data(), present.data() + present.size()));
          },
          "handle"_a, "present"_a);
}

Handles plain(const std::vector<std::optional<Handle>>& handles) {
  Handles plain;
  for (const std::optional<Handle>& handle : handles) plain.push_back(handle.value_or(kNone));
  return plain;
}

void bind_operations(nb::class_<Program>& program) {
  program.def("embed", &Program::embed, "table"_a, "out"_a)
      .def(
          "rms_norm",
          [](Program& self, Handle x, std::optional<Handle> weight, Handle out, float eps, int group, int groups) {
            self.rms_norm(x, weight.value_or(kNone), out, eps, group, groups);
          },
          "x"_a, "weight"_a.none(), "out"_a, "eps"_a, "group"_a = 0, "groups"_a = 0)
      .def(
          "linear",
          [](Program& self, Handle x, std::vector<Handle> weights, const std::vector<std::optional<Handle>>& biases,
             std::vector<Handle> outs) { self.linear(x, std::move(weights), plain(biases), std::move(outs)); },
          "x"_a, "weights"_a, "biases"_a, "outs"_a)
      .def(
          "rope",
          [](Program& self, Handle x, int heads, int head_dim, int rope_dim, const std::string& mode,
             const Floats& frequencies, float magnitude, int offset, const std::array<float, 3>& temperature) {
            self.rope(x, heads, head_dim, rope_dim, mode, copy(frequencies), magnitude, offset,
                      {temperature[0], temperature[1], temperature[2]});
          },
          "x"_a, "heads"_a, "head_dim"_a, "rope_dim"_a, "mode"_a, "frequencies"_a, "magnitude"_a = 1.0f, "offset"_a = 0,
          "temperature"_a = std::array<float, 3>{1, 0, 0})
      .def("head_linear", &Program::head_linear, "x"_a, "weight"_a, "out"_a, "heads"_a, "first"_a, "rows"_a,
           "transposed"_a = false)
      .def(
          "attention",
          [](Program& self, Handle q, Handle k, Handle v, Handle kv, Handle out, int heads, float scale, int window,
             float soft_cap, std::optional<Handle> sinks) {
            self.attention(q, k, v, kv, out, heads, scale, window, soft_cap, sinks.value_or(kNone));
          },
          "q"_a, "k"_a, "v"_a, "kv"_a, "out"_a, "heads"_a, "scale"_a, "window"_a = 0, "soft_cap"_a = 0.0f,
          "sinks"_a = nb::none())
      .def("glu", &Program::glu, "gate"_a, "up"_a, "out"_a, "activation"_a = "silu")
      .def(
          "router",
          [](Program& self, Handle logits, Handle ids, Handle weights, int top_k, const std::string& gating,
             bool normalise, float scale, std::optional<Handle> bias, int groups, int groups_used) {
            self.router(logits, ids, weights, top_k, gating, normalise, scale, bias.value_or(kNone), groups,
                        groups_used);
          },
          "logits"_a, "out_ids"_a, "out_weights"_a, "top_k"_a, "gating"_a = "softmax", "normalise"_a = true,
          "scale"_a = 1.0f, "bias"_a = nb::none(), "groups"_a = 1, "groups_used"_a = 1)
      .def(
          "experts",
          [](Program& self, Handle x, Handle ids, Handle weights, Handle gate, Handle up, Handle down, Handle out,
             const std::string& activation, std::optional<Handle> mask,
             const std::vector<std::optional<Handle>>& biases) {
            self.experts(x, ids, weights, gate, up, down, out, activation, mask.value_or(kNone), plain(biases));
          },
          "x"_a, "ids"_a, "weights"_a, "gate"_a, "up"_a, "down"_a, "out"_a, "activation"_a = "silu",
          "mask"_a = nb::none(), "biases"_a = std::vector<std::optional<Handle>>())
      .def("add", &Program::add, "a"_a, "b"_a, "out"_a)
      .def("scale", &Program::scale, "x"_a, "factor"_a)
      .def("soft_cap", &Program::soft_cap, "x"_a, "cap"_a)
      .def("select_rows", &Program::select_rows, "x"_a, "out"_a)
      .def("split_heads", &Program::split_heads, "x"_a, "outs"_a, "sizes"_a, "heads"_a)
      .def("short_conv", &Program::short_conv, "x"_a, "weight"_a, "out"_a, "state"_a)
      .def(
          "delta_rule",
          [](Program& self, Handle x, Handle alpha, Handle beta, Handle a, Handle dt, Handle out, Handle state,
             int key_heads, int value_heads, int key_dim, int value_dim, bool tiled, float eps) {
            self.delta_rule(
                {x, alpha, beta, a, dt, out, state, key_heads, value_heads, key_dim, value_dim, tiled, eps});
          },
          "x"_a, "alpha"_a, "beta"_a, "a"_a, "dt"_a, "out"_a, "state"_a, "key_heads"_a, "value_heads"_a, "key_dim"_a,
          "value_dim"_a, "tiled"_a, "eps"_a)
      .def(
          "finish",
          [](Program& self, bool fuse, const std::optional<Handles>& kept) {
            self.finish(fuse, kept ? &*kept : nullptr);
          },
          "fuse"_a = true, "kept"_a = nb::none());
}

void bind_execution(nb::class_<Program>& program) {
  program
      .def(
          "run",
          [](Program& self, ThreadPool& pool, const Batch& batch, int begin, int end) {
            const Program::Claim claim(self);
            const nb::gil_scoped_release unlocked;
            self.run(pool, batch, begin, end);
          },
          "pool"_a, "batch"_a, "begin"_a = 0, "end"_a = -1)
      .def("read", &rows_of, "value"_a)
      .def(
          "write", [](Program& self, Handle v, const FloatTable& rows) { write_rows(self, v, rows, false); }, "value"_a,
          nb::arg("rows").noconvert())
      .def(
          "write", [](Program& self, Handle v, const IntTable& rows) { write_rows(self, v, rows, true); }, "value"_a,
          nb::arg("rows").noconvert())
      .def("trim", &Program::trim)
      .def_prop_ro("held_bytes", &Program::held_bytes)
      .def_prop_ro("operation_count", &Program::operation_count)
      .def_prop_ro("step_count", &Program::step_count)
      .def_prop_ro("tier", &Program::tier);
}

}  // namespace

void bind_program(nb::module_& m) {
  nb::class_<ThreadPool>(m, "ThreadPool")
      .def(nb::init<int, int, bool>(), "threads"_a, "spin_microseconds"_a = 50, "pin"_a = false)
      .def_prop_ro("threads", &ThreadPool::threads);

  nb::class_<Batch>(m, "Batch")
      .def(
          "__init__",
          [](Batch* self, const Ints& tokens, const Ints& positions, const Ints& sequences, const IntTable& tables,
             const Ints& outputs, const std::optional<IntTable>& slots, int count) {
            if (tables.shape(0) > (1u << 20) || tables.shape(1) > (1u << 24))
              throw std::invalid_argument("batch: block_tables is too large");
            if (count < 1 || tables.shape(0) % static_cast<size_t>(count) != 0)
              throw std::invalid_argument("batch: block_tables does not hold " + std::to_string(count) + " tables");
            new (self) Batch(
                copy(tokens), copy(positions), copy(sequences),
                std::vector<int32_t>(tables.data(), tables.data() + tables.size()),
                static_cast<int>(tables.shape(0)) / count, static_cast<int>(tables.shape(1)), copy(outputs),
                slots ? std::vector<int32_t>(slots->data(), slots->data() + slots->size()) : std::vector<int32_t>(),
                count);
          },
          "tokens"_a, "positions"_a, "sequences"_a, "block_tables"_a, "outputs"_a, "slots"_a = nb::none(),
          "tables"_a = 1)
      .def_static(
          "of",
          [](std::vector<int32_t> tokens, std::vector<int32_t> positions, std::vector<int32_t> sequences,
             const std::vector<std::vector<int32_t>>& tables, std::vector<int32_t> outputs, std::vector<int32_t> slots,
             int count) {
            size_t blocks = 0;
            for (const auto& table : tables) blocks = std::max(blocks, table.size());
            if (count < 1 || tables.size() % static_cast<size_t>(count) != 0)
              throw std::invalid_argument("batch: block_tables does not hold " + std::to_string(count) + " tables");
            if (blocks > (1u << 24)) throw std::invalid_argument("batch: block_tables is too large");
            std::vector<int32_t> padded(tables.size() * blocks, 0);
            for (size_t i = 0; i < tables.size(); ++i)
              std::copy(tables[i].begin(), tables[i].end(), padded.begin() + static_cast<std::ptrdiff_t>(i * blocks));
            return Batch(std::move(tokens), std::move(positions), std::move(sequences), std::move(padded),
                         static_cast<int>(tables.size()) / count, static_cast<int>(blocks), std::move(outputs),
                         std::move(slots), count);
          },
          "tokens"_a, "positions"_a, "sequences"_a, "block_tables"_a, "outputs"_a, "slots"_a, "tables"_a = 1)
      .def(
          "fill_block", [](const Batch& self, const Words& words, int tables) { fill_block(self, words, tables); },
          "words"_a.noconvert(), "tables"_a)
      .def_prop_ro("last_position", &Batch::last_position)
      .def_prop_ro("output_count", [](const Batch& self) { return self.outputs().size(); })
      .def("__len__", &Batch::size)
      .def_prop_ro("tokens", [](const Batch& self) { return ints(self.tokens().data(), {self.tokens().size()}); })
      .def_prop_ro("positions",
                   [](const Batch& self) { return ints(self.positions().data(), {self.positions().size()}); })
      .def_prop_ro("sequences",
                   [](const Batch& self) { return ints(self.sequences().data(), {self.sequences().size()}); })
      .def_prop_ro("block_tables",
                   [](const Batch& self) {
                     return ints(self.block_table(0), {static_cast<size_t>(self.tables() * self.sequence_count()),
                                                       static_cast<size_t>(self.table_blocks())});
                   })
      .def_prop_ro("tables", &Batch::tables)
      .def_prop_ro("slots",
                   [](const Batch& self) { return ints(self.all_slots().data(), {self.all_slots().size() / 2, 2}); })
      .def_prop_ro("outputs", [](const Batch& self) { return ints(self.outputs().data(), {self.outputs().size()}); });

  nb::class_<Program> program(m, "Program");
  program.def(nb::init<const std::string&>(), "tier"_a = "auto");
  bind_handles(program);
  bind_operations(program);
  bind_execution(program);
}

}  // namespace tessera
