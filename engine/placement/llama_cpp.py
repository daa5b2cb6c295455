"""How llama.cpp runs on a machine, as changes to its profile: the same hardware, another executor.

Every constant holds for all machines and models, and none is fitted to the rows it is judged by:

- READ_SHARE: share of the RAM's sustained bandwidth that decode reaches: the median over the CPU-only rows of
  `tests/bench/published.csv`, which have no GPU part and are not among those judged.
- EXPERT_SHARE: further share for experts: one MoE layer against plain reading on a Zen 4 core (1.28 ms for 21 MB at 25
  GB/s is 0.66, where dense products of the same types reach 0.73).
- Ops: its graph has 3.6 nodes for each step of our programs (counted on the llama and qwen3moe graphs: 26 nodes for 7
  steps, 36 for 11). CPU: a barrier of all threads per node, 5 microseconds. GPU: a launch per node; Qwen3-30B-A3B
  wholly on an RTX 4090 at 196 and on a 3090 Ti at 167 tokens/s leave 1.3 to 1.9 microseconds per node beside reading.
- SPLIT_SECONDS: one change of backend: inputs copied, the other side awaited by a stream synchronisation.
- Prefill: weights of CPU layers are copied to the GPU for every micro-batch of 512, from pageable memory, nothing
  beside it; the CPU's products reach 0.45 of the rate our kernels aim at (0.37–0.46 of the int8 peak measured).
"""

from __future__ import annotations

from dataclasses import replace

from engine.placement.budget import gpu_overhead
from engine.placement.costs import Workload
from engine.placement.hardware.profile import DeviceProfile, HardwareProfile, KernelRates
from engine.placement.shape import ModelShape

READ_SHARE = 0.77
EXPERT_SHARE = 0.9
NODES_PER_OP = 3.6
CPU_OP_SECONDS = NODES_PER_OP * 5e-6
GPU_OP_SECONDS = NODES_PER_OP * 1.6e-6
SPLIT_SECONDS = 30e-6
CPU_RATE_SHARE = 0.45
MICRO_BATCH = 512


def llama_cpp_machine(hardware: HardwareProfile) -> HardwareProfile:
    """The machine as llama.cpp makes use of it."""
    return replace(
        hardware,
        cpu=_cpu(hardware.cpu),
        gpu=replace(hardware.gpu, op_seconds=GPU_OP_SECONDS) if hardware.gpu else None,
        link=replace(hardware.link, switch_seconds=SPLIT_SECONDS, to_gpu=hardware.link.pageable)
        if hardware.link
        else None,
    )


def compatibility_machine(hardware: HardwareProfile) -> HardwareProfile:
    """The machine as the compatibility engine makes use of it, which keeps everything on the CPU."""
    return llama_cpp_machine(replace(hardware, gpu=None, link=None))


def _cpu(cpu: DeviceProfile) -> DeviceProfile:
    points = {
        name: tuple((tokens, rate * CPU_RATE_SHARE) for tokens, rate in rates)
        for name, rates in cpu.kernels.points.items()
    }
    return replace(
        cpu,
        bandwidth=cpu.bandwidth * READ_SHARE,
        kernels=KernelRates(points),
        op_seconds=CPU_OP_SECONDS,
        scattered_share=EXPERT_SHARE,
    )


def llama_cpp_overhead(shape: ModelShape, work: Workload) -> int:
    """GPU memory beside weights and KV: ours, the logits of a whole micro-batch, and one copied weight tensor."""
    logits = 4 * shape.vocabulary * min(MICRO_BATCH, work.prompt)
    copied = max((t.bytes for layer in shape.layers for t in layer.tensors), default=0)
    return gpu_overhead(shape, work) + logits + copied
