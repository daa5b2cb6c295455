"""Faults planted in the CUDA sources, each of which the tests must catch.

A mutation replaces one piece of source text, builds the units it concerns and runs a selection of the kernels' tests,
which must fail. `sanitizer` names the one that is needed to see it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kernels.cuda import source
from tests.support.cuda_build import HOST, build_library
from tests.support.cuda_sanitize import run

TESTS = Path(__file__).parents[1] / "kernels" / "cuda"


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    old: str
    new: str
    units: tuple[str, ...]
    test: str  # file and pytest's -k
    selection: str
    sanitizer: str = ""


Q4_K, Q6_K = (("rows", f"matvec_{name}", f"matmul_{name}") for name in ("q4_k", "q6_k"))
IQ4_XS, MXFP4, IQ3_S, IQ2_XXS, IQ1_M, TQ1_0 = (
    ("rows", f"matvec_{name}", f"matmul_{name}") for name in ("iq4_xs", "mxfp4", "iq3_s", "iq2_xxs", "iq1_m", "tq1_0")
)
F16 = ("matvec_f16", "matmul_f16")
MATRICES, EXPERTS, ROWS, ATTENTION = (f"test_{name}.py" for name in ("matrices", "experts", "rows", "attention"))
PRODUCTS = "products and ascending and "
MUTATIONS = (
    # numerics
    Mutation(
        "Q4_K takes a min's low bits only",
        "quant_types.cuh",
        "(c >> 4 & 15) | (b >> 2 & 0x30)",
        "(c >> 4 & 15)",
        Q4_K,
        MATRICES,
        PRODUCTS + "Q4_K",
    ),
    Mutation(
        "Q6_K uses one scale for a whole slice",
        "quant_types.cuh",
        "s.scale[1] = d * float(int8_t(factors >> 8))",
        "s.scale[1] = d * float(int8_t(factors))",
        Q6_K,
        MATRICES,
        PRODUCTS + "Q6_K",
    ),
    Mutation(
        "a codebook is looked up by three bits of four",
        "codebook_types.cuh",
        "0x3210 | (nibbles & 0x8888) >> 1",
        "0x3210",
        MXFP4,
        MATRICES,
        "products and MXFP4",
    ),
    Mutation(
        "unaligned blocks lose their last bytes",
        "codebook_types.cuh",
        "if (k < int(skew))",
        "if (k + 1 < int(skew))",
        MXFP4,
        MATRICES,
        "products and MXFP4",
    ),
    Mutation(
        "IQ4_XS takes a scale's low bits only",
        "codebook_types.cuh",
        "low | (head >> (16 + 2 * slice) & 3) << 4",
        "low | 32",
        IQ4_XS,
        MATRICES,
        "products and IQ4_XS",
    ),
    Mutation(
        "the eighth sign of a group is always positive",
        "grid_types.cuh",
        "(__popc(v & 127) & 1) << 7",
        "0",
        IQ2_XXS,
        MATRICES,
        "products and IQ2_XXS",
    ),
    Mutation(
        "a grid's high places are left out",
        "grid_types.cuh",
        "(high >> i & 1) << 8",
        "0",
        IQ3_S,
        MATRICES,
        "products and IQ3_S",
    ),
    Mutation(
        "IQ1_M takes one shift for two groups",
        "grid_types.cuh",
        "high >> (4 * i + 3) & 1",
        "high >> (8 * (i / 2) + 3) & 1",
        IQ1_M,
        MATRICES,
        "products and IQ1_M",
    ),
    Mutation(
        "the digits of the last bytes come in another order",
        "grid_types.cuh",
        "word - 60;",
        "63 - word;",
        TQ1_0,
        MATRICES,
        "products and TQ1_0",
    ),
    Mutation(
        "the last partial step of a row is dropped",
        "tiles.cuh",
        "s < cols / 32; s += kSlices",
        "s + 1 < cols / 32; s += kSlices",
        ("rows", "matvec_q8_0", "matmul_q8_0"),
        MATRICES,
        PRODUCTS + "Q8_0",
    ),
    Mutation(
        "a tensor-core fragment's halves are swapped",
        "tiles.cuh",
        "{x[t], x[4 + t]}",
        "{x[4 + t], x[t]}",
        Q4_K,
        MATRICES,
        PRODUCTS + "Q4_K",
    ),
    Mutation(
        "activations are truncated, not rounded",
        "rows.cu",
        "__float2int_rn(v[i] * inverse)",
        "int(v[i] * inverse)",
        ("rows",),
        MATRICES,
        "whole_slices and ascending",
    ),
    Mutation(
        "the norm forgets epsilon",
        "rows.cu",
        "/ float(width) + epsilon",
        "/ float(width)",
        ("rows",),
        ROWS,
        "rms and ascending",
    ),
    Mutation(
        "angles are reduced in floats",
        "rows.cu",
        "double(positions[blockIdx.x]) * double(frequencies[i])",
        "positions[blockIdx.x] * frequencies[i]",
        ("rows",),
        ROWS,
        "rope and ascending",
    ),
    Mutation(
        "an equal logit of a later expert wins",
        "experts.cu",
        "other_id < id)",
        "other_id > id)",
        ("experts",),
        EXPERTS,
        "router and ascending",
    ),
    Mutation(
        "an absent expert is computed all the same",
        "matvec.cu",
        "if (id < 0 || id >= experts || !down[id]) continue;",
        "if (id < 0 || id >= experts) continue;",
        F16,
        EXPERTS,
        "fused and ascending and F16 and not BF16",
    ),
    Mutation(
        "a window is one position too wide",
        "cache.cuh",
        "max(0, position - window + 1) : 0",
        "max(0, position - window) : 0",
        ("attention_f16",),
        ATTENTION,
        "decode and ascending and F16",
    ),
    Mutation(
        "a chunk forgets its first position",
        "cache.cuh",
        "return position / -window * -window;",
        "return position / -window * -window + 1;",
        ("attention_f16",),
        ATTENTION,
        "decode and ascending and F16",
    ),
    Mutation(
        "the softmax's old sum is not brought to the new peak",
        "prefill.cu",
        "sum[r] *= shrink;",
        "",
        ("attention_f16", "prefill_f16"),
        ATTENTION,
        "prefill_attention and ascending and F16",
    ),
    Mutation(
        "a deep head's second half of columns takes the first half's values",
        "prefill.cu",
        "my_values.values += column0;",
        "",
        ("attention_f16", "prefill_f16"),
        ATTENTION,
        "prefill_attention and ascending and F16 and deep",
    ),
    Mutation(
        "a latent cache's values have a stride of their own",
        "prefill.cu",
        "value_stride(is_latent ? depth + 8 : value_dim + 8)",
        "value_stride(value_dim + 8)",
        ("attention_f16", "prefill_f16"),
        ATTENTION,
        "prefill_attention and ascending and F16 and latent",
    ),
    Mutation(
        "a later group of heads asks for the first group's sinks",
        "prefill.cu",
        "sink_share(call.sinks, head0 + row % together, mine.peak[r])",
        "sink_share(call.sinks, kv_head * per_kv + row % together, mine.peak[r])",
        ("attention_f16", "prefill_f16"),
        ATTENTION,
        "prefill_attention_with_soft_cap_and_sinks and ascending",
    ),
    Mutation(
        "partitions are combined without their peaks",
        "attention.cu",
        "sum += expf(extent[p].peak - peak) * partials",
        "sum += partials",
        ("attention_q8_0",),
        ATTENTION,
        "several and ascending",
    ),
    # threads
    Mutation(
        "a tile is read before it is written",
        "tiles.cuh",
        "    __syncthreads();\n#pragma unroll\n    for (int part",
        "#pragma unroll\n    for (int part",
        Q4_K,
        MATRICES,
        "products and Q4_K",
    ),
    Mutation(
        "a tile is overwritten while it is read",
        "tiles.cuh",
        "for (int s = 0; s < cols / 32; s += kSlices) {\n    __syncthreads();",
        "for (int s = 0; s < cols / 32; s += kSlices) {",
        Q4_K,
        MATRICES,
        "products and Q4_K",
    ),
    Mutation(
        "deep keys are overwritten while they are read",
        "prefill.cu",
        "k0 < end; k0 += kDeepKeys) {\n    __syncthreads();",
        "k0 < end; k0 += kDeepKeys) {",
        ("attention_f16", "prefill_f16"),
        ATTENTION,
        "prefill_attention and F16 and deep",
    ),
    Mutation(
        "a block's sum is read before all have added",
        "rows.cu",
        "partial[threadIdx.x / kWarp] = v;\n  __syncthreads();",
        "partial[threadIdx.x / kWarp] = v;",
        ("rows",),
        ROWS,
        "rms",
    ),
    Mutation(
        "half a warp leaves out a shuffle",
        "rows.cu",
        "  v = warp_sum(v);\n  if",
        "  if (threadIdx.x % kWarp < 16) v = warp_sum(v);\n  if",
        ("rows",),
        ROWS,
        "rms and ascending",
    ),
    Mutation(
        "weights are scaled before they are written",
        "experts.cu",
        "  __syncwarp();\n  const float factor",
        "  const float factor",
        ("experts",),
        EXPERTS,
        "router",
    ),
    Mutation(
        "a counter is not atomic",
        "experts.cu",
        "sorted[atomicAdd(&cursor[ids[p]], 1)] = p;",
        "sorted[cursor[ids[p]]] = p, cursor[ids[p]] += 1;",
        ("experts", "matmul_f32"),
        EXPERTS,
        "grouped and F32 and ascending",
        "thread",
    ),
    # memory
    Mutation(
        "rows past the end are read",
        "matvec.cu",
        "min(first + r, rows - 1)",
        "(first + r)",
        F16,
        MATRICES,
        PRODUCTS + "F16 and not BF16",
        "address",
    ),
    Mutation(
        "a sum is written past its array",
        "rows.cu",
        "if (i < n) y[i] = a[i] + b[i];",
        "y[i] = a[i] + b[i];",
        ("rows",),
        ROWS,
        "elementwise and ascending",
        "address",
    ),
    Mutation(
        "logits are written past shared memory",
        "experts.cu",
        "e < experts; e += kWarp) open[e] = finite(logits[e])",
        "e <= experts; e += kWarp) open[e] = finite(logits[min(e, experts - 1)])",
        ("experts",),
        EXPERTS,
        "router and ascending",
        "address",
    ),
)


def survives(mutation: Mutation, folder: Path) -> str:
    """Plants the fault; returns what the tests printed if they passed all the same, else "". A fault that does not
    build, or tests that do not run, raise."""
    cuda, host = folder / "cuda", HOST
    shutil.copytree(source.FOLDER, cuda, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    text = (cuda / mutation.file).read_text()
    if text.count(mutation.old) != 1:
        raise AssertionError(f"{mutation.name}: the source to change is there {text.count(mutation.old)} times")
    (cuda / mutation.file).write_text(text.replace(mutation.old, mutation.new))
    library = build_library(folder / "build", mutation.units, cuda, host, mutation.sanitizer)
    if mutation.sanitizer:
        result = run(mutation.sanitizer, library, ["-k", mutation.selection], (mutation.test,))
    else:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=line", f"--cuda-library={library}"]
        command += ["-k", mutation.selection, str(TESTS / mutation.test)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode in (2, 3, 4, 5):
        raise AssertionError(f"{mutation.name}: the tests did not run\n{result.stdout}{result.stderr}")
    if "undefined symbol" in result.stdout + result.stderr:
        raise AssertionError(f"{mutation.name}: its units are not all that the tests need\n{result.stdout}")
    return result.stdout if result.returncode == 0 else ""
