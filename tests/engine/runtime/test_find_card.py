"""Which card is there, what hinders it, what "auto" makes of that; and what doctor and plan say."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import DeviceError
from engine.placement.hardware import catalogue
from engine.placement.hardware.card import CardFacts, catalogue_entry
from engine.runtime.devices import open as opening
from engine.runtime.devices.cuda import find
from engine.runtime.devices.cuda.device import CudaDevice
from engine.runtime.devices.cuda.find import FoundCard, find_card
from engine.runtime.devices.device import parse_device
from engine.runtime.devices.open import choose_device, open_chosen, open_device, with_device
from engine.telemetry import doctor
from engine.telemetry.doctor import Health
from engine.telemetry.gpus import GPU, GPUReport
from kernels.cuda import nvrtc
from kernels.cuda.driver import Driver
from kernels.cuda.host import library_path

GIB = 1 << 30
STAND_IN = CardFacts("Stand-in", 75, 8 * GIB, 20, 1.5e9, 7e9, 192, False)
MISSING = FoundCard(reason="There is no NVIDIA driver.", remedy="Install it.")
HINDERED = FoundCard(name="RTX 3060", capability=86, reason="RTX 3060 is here, but …", remedy="pip install …")


def found_anew() -> FoundCard:
    find._found.cache_clear()
    card = find_card(library_path())
    find._found.cache_clear()
    return card


def test_what_the_driver_says_of_a_card() -> None:
    card = found_anew()
    assert card.is_usable and card.facts == STAND_IN and not card.reason


@pytest.mark.parametrize("sizes", [(8, 24), (24, 8), (8, 8), (8, 24, 24)])
def test_of_several_cards_the_one_with_the_most_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    """It is opened by its number, its rates are what the probe measures, and NVML's largest is no other."""
    monkeypatch.setattr(Driver, "device_count", lambda self: len(sizes))
    monkeypatch.setattr(Driver, "name", lambda self, index=0: f"Card {index}")
    monkeypatch.setattr(Driver, "total_memory", lambda self, index=0: sizes[index] * GIB)
    card, largest = found_anew(), sizes.index(max(sizes))
    assert card.facts is not None and card.driver is not None
    assert (card.name, card.facts.index, card.facts.memory_bytes) == (f"Card {largest}", largest, max(sizes) * GIB)
    made: list[tuple[object, ...]] = []
    real = Driver.call
    monkeypatch.setattr(Driver, "call", lambda self, *args: (made.append(args), real(self, *args))[1])
    device = CudaDevice(card.driver, tmp_path, card.facts, 0)
    numbers = {args[2] for args in made if args[0] == "cuDevicePrimaryCtxRetain"}
    assert device.name == f"cuda:{largest}" and numbers == {largest}
    device.close()


def test_a_smaller_card_that_can_be_used_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Driver, "device_count", lambda self: 2)
    monkeypatch.setattr(Driver, "total_memory", lambda self, index=0: (24, 8)[index] * GIB)
    monkeypatch.setattr(Driver, "capability", lambda self, index=0: (61, 75)[index])
    card = found_anew()
    assert card.is_usable and card.facts is not None and card.facts.index == 1


def test_no_driver(tmp_path: Path) -> None:
    card = find_card(tmp_path / "none.so")
    assert not card.is_usable and card.reason == "There is no NVIDIA driver." and card.remedy


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [(75, 6, "older than what the CUDA kernels"), (102, 0, "cannot map memory in pieces")],
)
def test_cards_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, attribute: int, value: int, reason: str) -> None:
    real = Driver.attribute
    monkeypatch.setattr(Driver, "attribute", lambda self, n, d=0: value if n == attribute else real(self, n, d))
    card = found_anew()
    assert not card.is_usable and reason in card.reason and card.name == "Stand-in"


def test_without_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "find", lambda: None)
    card = found_anew()
    assert not card.is_usable and "but not NVRTC" in card.reason and "Install GPU support" in card.remedy


def test_with_a_compiler_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> str:
        raise nvrtc.NvrtcError("NVRTC: out of memory")

    monkeypatch.setattr(nvrtc, "target", broken)
    card = found_anew()
    assert not card.is_usable and "NVRTC: out of memory" in card.reason and "Install GPU support" in card.remedy


def test_a_driver_older_than_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Driver, "version", lambda self: 12040)
    card = found_anew()
    assert not card.is_usable and "CUDA 12.4, older than NVRTC" in card.reason


def test_automatic_takes_a_card_that_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = {}
    for name, card in {"usable": find_card(library_path()), "missing": MISSING, "hindered": HINDERED}.items():
        monkeypatch.setattr(opening, "find_card", lambda card=card: card)
        choices[name] = choose_device("auto")
    assert choices["usable"] == ("cuda", "") and choices["missing"] == ("cpu", "")
    assert choices["hindered"] == ("cpu", "RTX 3060 is here, but … The model runs on the processor. pip install …")
    assert choose_device("emulated") == ("emulated", "")


def test_asked_for_and_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "find_card", lambda: HINDERED)
    with pytest.raises(DeviceError, match="is here, but") as refusal:
        open_device("cuda", None, 1)
    assert refusal.value.remedy == "pip install … Or run it on the processor."
    with pytest.raises(DeviceError):
        with_device(catalogue.machine("Ryzen 7 5800X"), parse_device("cuda:6GiB"))


def test_what_cannot_be_opened_is_refused_by_name_and_passed_over_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise DeviceError("The card could not be opened: busy.", remedy="Close other programs.")

    monkeypatch.setattr(opening, "find_card", lambda: find_card(library_path()))
    monkeypatch.setattr(opening, "_open_card", busy)
    with pytest.raises(DeviceError, match="busy"):
        open_chosen("cuda", None, 1)
    device, warning = open_chosen("auto", None, 1)
    assert device is None
    assert warning == "The card could not be opened: busy. The model runs on the processor."


def test_plans_are_for_the_card_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "find_card", lambda: find_card(library_path()))
    own = catalogue.machine("Ryzen 7 5800X")
    machine = with_device(own, parse_device("cuda:6GiB"))
    assert machine.gpu is not None and machine.gpu.name == "Stand-in" and machine.gpu.memory_bytes == 8 * GIB
    assert machine.gpu.bandwidth == pytest.approx(336e9 * catalogue.GPU_READ_SHARE)
    assert machine.cpu == own.cpu and any("not measured" in note for note in machine.notes)
    assert with_device(machine, parse_device("cpu")).gpu is None


def test_a_card_of_the_catalogue_has_its_rates() -> None:
    facts = CardFacts("NVIDIA GeForce RTX 3060", 86, 12 * GIB, 28, 0, 0, 0, True)
    assert catalogue_entry(facts) == catalogue.find_gpu("RTX 3060 12GB")
    unknown = catalogue_entry(CardFacts("Some card", 120, 4 * GIB, 10, 1e9, 0, 0, True))
    assert unknown.bandwidth_gb > 0 and unknown.fp16_tensor_tflops == pytest.approx(10.24)
    halved = catalogue_entry(CardFacts("GeForce 99", 120, 4 * GIB, 10, 1e9, 0, 0, True))
    assert halved.fp16_tensor_tflops == pytest.approx(5.12)


def test_doctor_says_what_hinders_a_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = GPUReport((GPU(0, "RTX 3060", 12 * GIB),), "580.1", "")
    monkeypatch.setattr(doctor, "read_gpus", lambda: report)

    def support() -> doctor.Check:
        return next(c for c in doctor.run_checks(tmp_path, has_display=True) if c.name == "GPU support")

    monkeypatch.setattr(doctor, "find_card", lambda: HINDERED)
    assert support() == doctor.Check("GPU support", Health.LIMITED, HINDERED.reason, HINDERED.remedy)
    monkeypatch.setattr(doctor, "find_card", lambda: find_card(library_path()))
    assert support().health is Health.GOOD and "7.5" in support().found
