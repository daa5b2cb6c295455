"""Devices: their memory, their streams, and copies between them. What runs on them is lowered elsewhere."""

from engine.runtime.devices.device import Device, DeviceChoice, LinkRates, parse_device
from engine.runtime.devices.memory import DeviceMemory, DeviceMemoryError, Region
from engine.runtime.devices.streams import Clock, Event, Launch, Stream, Task, VirtualClock, WallClock

__all__ = [
    "Clock",
    "Device",
    "DeviceChoice",
    "DeviceMemory",
    "DeviceMemoryError",
    "Event",
    "Launch",
    "LinkRates",
    "Region",
    "Stream",
    "Task",
    "VirtualClock",
    "WallClock",
    "parse_device",
]
