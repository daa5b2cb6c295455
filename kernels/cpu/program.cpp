// Handles, binding, and reading and writing values.
#include "program.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "steps.h"

namespace tessera {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

std::string named(const char* kind, Handle handle) { return std::string(kind) + " " + std::to_string(handle); }

template <class T>
T& at(std::vector<T>& items, Handle handle, const char* kind) {
  if (handle < 0 || static_cast<size_t>(handle) >= items.size()) refuse("there is no " + named(kind, handle));
  return items[static_cast<size_t>(handle)];
}

constexpr size_t kMostHandles = 1 << 16;

void check_count(size_t handles) {
  if (handles >= kMostHandles) refuse("a program has at most " + std::to_string(kMostHandles) + " handles of a kind");
}

void check_size(const std::string& what, int size, int most = kMostWidth) {
  if (size < 1 || size > most) refuse(what + " must be 1.." + std::to_string(most) + ", not " + std::to_string(size));
}

const QuantTypeInfo& type_info(int type_id, const std::string& what) {
  for (const QuantTypeInfo& info : kQuantTypes)
    if (static_cast<int>(info.type) == type_id) return info;
  refuse(what + " has the unknown type " + std::to_string(type_id));
}

size_t kv_row_bytes(KvType type, int dim, const std::string& what) {
  const auto n = static_cast<size_t>(dim);
  if (type == KvType::F32) return 4 * n;
  if (type == KvType::F16) return 2 * n;
  if (type != KvType::Q8_0) refuse(what + " must be of type F32, F16 or Q8_0");
  if (n % 32 != 0) refuse(what + ": Q8_0 needs head dimensions that are multiples of 32, not " + std::to_string(dim));
  return n / 32 * 34;
}

}  // namespace

Program::Program(const std::string& tier) : kernels_(load_kernels(tier)) {}
Program::~Program() = default;

void Program::check_idle(const char* what) const {
  if (running_.load(std::memory_order_acquire))
    throw std::runtime_error(std::string(what) + ": the program is running in another thread");
}

Handle Program::value(int width, bool ids) {
  check_recording("value");
  check_size("value width", width);
  check_count(values_.size());
  values_.push_back({width, ids});
  return static_cast<Handle>(values_.size() - 1);
}

Handle Program::weight(int type_id, int rows, int cols, int count) {
  check_recording("weight");
  const std::string what = named("weight", static_cast<Handle>(weights_.size()));
  const QuantTypeInfo& info = type_info(type_id, what);
  check_size(what + ": rows", rows);
  check_size(what + ": cols", cols);
  check_size(what + ": count", count, 1 << 14);
  if (cols % info.block_elements != 0)
    refuse(what + ": " + std::to_string(cols) + " cols are no multiple of the " + std::to_string(info.block_elements) +
           " of a " + info.name + " block");
  const size_t row_bytes = static_cast<size_t>(cols / info.block_elements) * static_cast<size_t>(info.block_bytes);
  if (row_bytes * static_cast<size_t>(rows) > (size_t{1} << 60) / static_cast<size_t>(count))
    refuse(what + " would take more than 2^60 bytes");
  check_count(weights_.size());
  weights_.push_back({info.type, rows, cols, count, row_bytes, nullptr, nullptr});
  return static_cast<Handle>(weights_.size() - 1);
}

void Program::bind_weight(Handle handle, const uint8_t* memory, size_t size, int64_t offset, Owner owner) {
  check_idle("bind_weight");
  Weight& weight = at(weights_, handle, "weight");
  const std::string what = "bind_weight: " + named("weight", handle);
  if (offset < 0 || static_cast<uint64_t>(offset) > size || weight.bytes() > size - static_cast<uint64_t>(offset))
    refuse(what + " needs " + std::to_string(weight.bytes()) + " bytes at offset " + std::to_string(offset) +
           ", but the buffer holds " + std::to_string(size));
  const uint8_t* const data = memory + offset;
  const uintptr_t alignment = weight.type == QuantType::F32 ? 4 : 2;
  if (reinterpret_cast<uintptr_t>(data) % alignment != 0)
    refuse(what + " must lie at an address that is a multiple of " + std::to_string(alignment));
  weight.data = data;
  weight.owner = std::move(owner);
}

Handle Program::kv_layer(int heads, int key_dim, int value_dim, int type_id, int block_tokens, bool latent, int table) {
  check_recording("kv_layer");
  const std::string what = named("kv_layer", static_cast<Handle>(kv_layers_.size()));
  check_size(what + ": kv_heads", heads, 1 << 12);
  check_size(what + ": key_dim", key_dim, 1 << 12);
  check_size(what + ": value_dim", value_dim, 1 << 12);
  check_size(what + ": block_tokens", block_tokens, 1 << 12);
  if (table < 0) refuse(what + ": table must not be negative");
  if (latent && value_dim > key_dim) refuse(what + ": a latent layer's values are a part of its keys");
  const auto type = static_cast<KvType>(type_id);
  const size_t key_bytes = kv_row_bytes(type, key_dim, what), value_bytes = kv_row_bytes(type, value_dim, what);
  kv_layers_.push_back({heads, key_dim, value_dim, block_tokens, type, latent, table, key_bytes,
                        latent ? key_bytes : value_bytes, nullptr, nullptr, 0, nullptr, nullptr});
  return static_cast<Handle>(kv_layers_.size() - 1);
}

void Program::bind_kv(Handle handle, uint8_t* keys, size_t keys_size, uint8_t* values, size_t values_size,
                      Owner keys_owner, Owner values_owner) {
  check_idle("bind_kv");
  KvLayer& kv = at(kv_layers_, handle, "kv_layer");
  const std::string what = "bind_kv: " + named("kv_layer", handle);
  if (kv.latent) {
    if (values_size != 0) refuse(what + " is latent and keeps no values of its own");
    values = keys;
    values_size = keys_size;
    values_owner = keys_owner;
  }
  const size_t key_block = kv.block_bytes(kv.key_row_bytes), value_block = kv.block_bytes(kv.value_row_bytes);
  if (keys_size % key_block != 0 || values_size % value_block != 0)
    refuse(what + " takes whole blocks of " + std::to_string(key_block) + " bytes of keys and " +
           std::to_string(value_block) + " of values, not " + std::to_string(keys_size) + " and " +
           std::to_string(values_size));
  const size_t blocks = keys_size / key_block;
  if (blocks != values_size / value_block || blocks < 1 || blocks > (1u << 30))
    refuse(what + ": keys hold " + std::to_string(blocks) + " blocks, values " +
           std::to_string(values_size / value_block));
  if ((reinterpret_cast<uintptr_t>(keys) | reinterpret_cast<uintptr_t>(values)) % 4 != 0)
    refuse(what + ": keys and values must lie at multiples of 4 bytes");
  kv.keys = keys;
  kv.values = values;
  kv.blocks = static_cast<int>(blocks);
  kv.keys_owner = std::move(keys_owner);
  kv.values_owner = std::move(values_owner);
}

Handle Program::state_layer(int tail_values, int state_values) {
  check_recording("state_layer");
  const std::string what = named("state_layer", static_cast<Handle>(state_layers_.size()));
  check_size(what + ": tail_values", tail_values);
  check_size(what + ": state_values", state_values);
  check_count(state_layers_.size());
  state_layers_.push_back({tail_values, state_values, nullptr, nullptr, 0, nullptr, nullptr});
  return static_cast<Handle>(state_layers_.size() - 1);
}

void Program::bind_state(Handle handle, uint8_t* tails, size_t tails_size, uint8_t* states, size_t states_size,
                         Owner tails_owner, Owner states_owner) {
  check_idle("bind_state");
  StateLayer& layer = at(state_layers_, handle, "state_layer");
  const std::string what = "bind_state: " + named("state_layer", handle);
  const size_t tail = sizeof(float) * static_cast<size_t>(layer.tail_values);
  const size_t state = sizeof(float) * static_cast<size_t>(layer.state_values);
  const size_t slots = tails_size / tail;
  if (slots < 1 || slots > (1u << 20) || tails_size != slots * tail || states_size != slots * state)
    refuse(what + " takes slots of " + std::to_string(tail) + " bytes of tails and " + std::to_string(state) +
           " of states, not " + std::to_string(tails_size) + " and " + std::to_string(states_size));
  if ((reinterpret_cast<uintptr_t>(tails) | reinterpret_cast<uintptr_t>(states)) % 4 != 0)
    refuse(what + ": tails and states must lie at multiples of 4 bytes");
  layer.tails = reinterpret_cast<float*>(tails);
  layer.states = reinterpret_cast<float*>(states);
  layer.slots = static_cast<int>(slots);
  layer.tails_owner = std::move(tails_owner);
  layer.states_owner = std::move(states_owner);
}

Handle Program::expert_mask(int experts) {
  check_recording("expert_mask");
  check_size("expert_mask: experts", experts, 1 << 14);
  masks_.push_back({std::vector<uint8_t>(static_cast<size_t>(experts), 1)});
  return static_cast<Handle>(masks_.size() - 1);
}

void Program::set_expert_mask(Handle handle, std::vector<uint8_t> present) {
  check_idle("set_expert_mask");
  std::vector<uint8_t>& mask = at(masks_, handle, "expert_mask").present;
  if (present.size() != mask.size())
    refuse("set_expert_mask: " + named("expert_mask", handle) + " has " + std::to_string(mask.size()) +
           " experts, not " + std::to_string(present.size()));
  mask = std::move(present);
}

Program::Rows Program::read(Handle handle) const {
  check_idle("read");
  if (handle < 0 || static_cast<size_t>(handle) >= values_.size())
    refuse("read: there is no " + named("value", handle));
  const Value& value = value_at(handle);
  if (arena_ == nullptr) refuse("read: nothing has run yet, or not since trim()");
  if (value.fused_away)
    refuse("read: " + named("value", handle) + " exists only inside a fused step; finish(fuse=False) keeps it");
  if (!value.kept) refuse("read: " + named("value", handle) + " shares its memory; finish(kept=…) keeps it");
  const Domain domain = last_domains_[static_cast<size_t>(handle)];
  return {value_rows_[static_cast<size_t>(handle)], domain == Domain::tokens ? last_tokens_ : last_outputs_,
          value.width, value.is_ids, arena_};
}

void Program::write(Handle handle, const void* data, int rows, int width, bool is_ids) {
  check_idle("write");
  const Value& value = at(values_, handle, "value");
  const std::string what = "write: " + named("value", handle);
  if (!finished_) refuse("write: finish() comes first");
  if (!value.kept) refuse(what + " shares its memory; finish(kept=…) keeps it");
  if (value.is_ids != is_ids) refuse(what + (value.is_ids ? " holds int32 ids" : " holds float32"));
  if (width != value.width)
    refuse(what + " has width " + std::to_string(value.width) + ", not " + std::to_string(width));
  if (rows < 1 || rows > (1 << 20)) refuse(what + ": rows must be 1..1048576, not " + std::to_string(rows));
  reserve_rows(rows, has_token_rows_[static_cast<size_t>(handle)] ? 0 : rows);
  std::memcpy(value_rows_[static_cast<size_t>(handle)], data,
              sizeof(float) * static_cast<size_t>(rows) * static_cast<size_t>(width));
}

void Program::trim() {
  check_idle("trim");
  arena_.reset();
  token_capacity_ = output_capacity_ = last_tokens_ = last_outputs_ = 0;
  shared_scratch_ = Arena();
  thread_scratch_.clear();
}

size_t Program::held_bytes() const {
  size_t bytes = (arena_ != nullptr ? arena_->size() : 0) + shared_scratch_.size();
  for (const Arena& scratch : thread_scratch_) bytes += scratch.size();
  return bytes;
}

int Program::step_count() const {
  int count = 0;
  for (size_t i = 0; i < single_.size(); ++count)
    i = static_cast<size_t>(fused_[i].step != nullptr ? fused_[i].end : single_[i].end);
  return count;
}

}  // namespace tessera
