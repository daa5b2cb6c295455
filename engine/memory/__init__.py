"""Where a model's bytes live: mapped weights, the paged KV cache, the state of each sequence."""

from engine.memory.kv_pool import KVPool
from engine.memory.prefix_cache import PrefixCache
from engine.memory.sequence_state import SequenceState
from engine.memory.weight_store import WeightStore

__all__ = ["KVPool", "PrefixCache", "SequenceState", "WeightStore"]
