"""The machine: its rates measured (`probe`, `store`) or taken from datasheets (`catalogue`)."""

from engine.placement.hardware.profile import DeviceProfile, HardwareProfile, KernelRates, Link

__all__ = ["DeviceProfile", "HardwareProfile", "KernelRates", "Link"]
