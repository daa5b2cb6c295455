"""Every setting is declared here, once: name, type, default, help, where it is shown, and its old names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from engine.processors import usable_processors


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `choices` are (value, words) pairs; `minimum` and `maximum` hold for numbers.

    `default` gives the type; an optional number is an int whose 0 means "automatic".
    """

    name: str
    default: bool | int | float | str
    group: str
    title: str
    help: str
    choices: tuple[tuple[str, str], ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    needs_restart: bool = False
    needs_reload: bool = False  # takes effect when the model is loaded the next time
    shown: bool = True
    zero: str = "Automatic"  # what 0, or an empty text, means where it is the default
    too_much: str = ""  # said of more than `maximum`, {} being that; empty: as of every other
    renamed_from: tuple[str, ...] = field(default=())

    def problem(self, value: Any) -> str:
        """Why `value` cannot be this setting's, or an empty string."""
        kind = type(self.default)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            return f"“{self.name}” needs a value like {self.default!r}, not {value!r}."
        if isinstance(value, str) and not _can_be_a_name(value):
            return f"“{self.name}” holds characters that no file or address can have."
        if self.choices and value not in [choice for choice, _ in self.choices]:
            allowed = ", ".join(choice for choice, _ in self.choices)
            return f"“{self.name}” can be {allowed}, not {value!r}."
        if self.minimum is not None and value < self.minimum:
            return f"“{self.name}” must be at least {self.minimum:g}, not {value!r}."
        if self.maximum is not None and value > self.maximum:
            usual = f"“{self.name}” must be at most {self.maximum:g}, not {value!r}."
            return self.too_much.format(f"{self.maximum:g}") or usual
        return ""


def _can_be_a_name(text: str) -> bool:
    """Whether the system takes it; file names that are no text come as surrogates, which stand for their bytes."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return "\0" not in text


GENERAL, APPEARANCE, ENGINE, CHAT = "General", "Appearance", "Engine", "Chat"
NETWORK, PRIVACY = "Network", "Privacy"
GROUPS = (GENERAL, APPEARANCE, CHAT, ENGINE, NETWORK, PRIVACY)  # in this order on the page

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "theme",
        "system",
        APPEARANCE,
        "Theme",
        "Follow the system, or always light or dark.",
        choices=(("system", "Like the system"), ("light", "Light"), ("dark", "Dark")),
    ),
    Setting(
        "font_size",
        15,
        APPEARANCE,
        "Text size",
        "Size of the conversation's text in pixels.",
        minimum=11,
        maximum=28,
    ),
    Setting(
        "language",
        "system",
        GENERAL,
        "Language",
        "Of menus, buttons and messages.",
        choices=(("system", "Like the system"), ("en", "English"), ("zh_CN", "简体中文")),
        needs_restart=True,
    ),
    Setting(
        "notifications",
        True,
        GENERAL,
        "Notifications",
        "Tell when a long answer or a download has ended while another window is used.",
    ),
    Setting(
        "update_check",
        False,
        PRIVACY,
        "Look for updates",
        "Once a week, ask the address below for the newest version. The request says nothing of you or this computer.",
    ),
    Setting(
        "update_feed",
        "",
        PRIVACY,
        "Address for updates",
        "The https address of a release file. Empty: nobody is asked.",
        zero="None",
    ),
    Setting(
        "models_folder",
        "",
        GENERAL,
        "Models folder",
        "Where models are looked for and downloaded to. Empty: inside the application's data folder.",
        zero="Default",
    ),
    Setting(
        "automatic_titles",
        True,
        CHAT,
        "Titles by the model",
        "After the first answer the model is asked for a title, while nothing else is to be done.",
    ),
    Setting(
        "threads",
        0,
        ENGINE,
        "Threads",
        "Processor threads used for computing, at most one for each logical processor. Automatic: one for each fast "
        "physical core.",
        minimum=0,
        maximum=usable_processors(),
        too_much="“threads” must be at most {}: no more logical processors can be used here.",
        needs_reload=True,
    ),
    Setting(
        "context_length",
        0,
        ENGINE,
        "Context length",
        "Tokens a conversation may span. Automatic: what the model was trained with, capped by memory.",
        minimum=0,
        maximum=16_777_216,
        needs_reload=True,
    ),
    Setting(
        "kv_type",
        "f16",
        ENGINE,
        "Precision of the context",
        "Of the keys and values that are kept of each token. In 8 bits they take 53 % of the memory, and SmolLM2's "
        "perplexity rises by 0.03 %.",
        choices=(("f16", "16 bits"), ("q8_0", "8 bits")),
        needs_reload=True,
    ),
    Setting(
        "engine",
        "auto",
        ENGINE,
        "Engine",
        "Automatic uses Tessera's own engine wherever it knows the model.",
        choices=(("auto", "Automatic"), ("native", "Native only"), ("compatibility", "Compatibility only")),
        needs_reload=True,
    ),
    Setting(
        "hub_endpoint",
        "",
        NETWORK,
        "Hub address",
        "Where models are searched and fetched, for instance a mirror. Empty: HF_ENDPOINT, or huggingface.co.",
        zero="Default",
    ),
    Setting(
        "hub_proxy",
        "",
        NETWORK,
        "Proxy",
        "As http://user:password@host:port. Empty: the system's; “none”: no proxy at all.",
        zero="Like the system",
    ),
    Setting(
        "hub_ca_file",
        "",
        NETWORK,
        "Additional certificates",
        "A PEM file, for companies whose proxy signs its own certificates.",
        zero="None",
    ),
    Setting(
        "download_parallel",
        2,
        NETWORK,
        "Downloads at the same time",
        "The others wait in the queue.",
        minimum=1,
        maximum=8,
    ),
    Setting(
        "download_limit",
        0,
        NETWORK,
        "Speed limit",
        "For all downloads together, in kB per second. Automatic: as fast as it goes.",
        minimum=0,
        maximum=10_000_000,
    ),
    Setting(
        "device",
        "auto",
        ENGINE,
        "Second device",
        "What computes beside the processor. Automatic: an NVIDIA GPU, where one can be used. The emulated one tries "
        "placements out; it makes nothing faster.",
        choices=(("auto", "Automatic"), ("cpu", "None"), ("cuda", "NVIDIA GPU"), ("emulated", "Emulated")),
        needs_reload=True,
    ),
    Setting(
        "hub_offline",
        False,
        PRIVACY,
        "Offline mode",
        "Ask nothing of the network, whatever is pressed.",
    ),
    Setting(
        "trash_days",
        0,
        PRIVACY,
        "Empty the trash",
        "Days after which deleted conversations are removed for good, when Tessera starts.",
        minimum=0,
        maximum=3650,
        zero="Never",
    ),
    Setting(
        "ram_budget",
        0,
        ENGINE,
        "RAM",
        "MiB of RAM that Tessera may take; a model that needs more is refused. Automatic: what the machine has.",
        minimum=0,
        maximum=1 << 30,
        needs_reload=True,
    ),
    Setting(
        "gpu_budget",
        0,
        ENGINE,
        "GPU memory",
        "MiB that may be used on the GPU; 0: recommended.",
        minimum=0,
        maximum=1 << 30,
        shown=False,
    ),
    Setting("shown_machine", "", ENGINE, "Shown machine", "The GPU that the memory page shows.", shown=False),
    Setting("last_model", "", GENERAL, "Last model", "Loaded when the application starts.", shown=False),
    Setting(
        "last_update_check",
        0,
        GENERAL,
        "Last check for updates",
        "Seconds since 1970.",
        minimum=0,
        maximum=1 << 40,
        shown=False,
    ),
    Setting("window_geometry", "", GENERAL, "Window", "Place and size of the window.", shown=False),
    Setting("sidebar_width", 272, GENERAL, "Sidebar", "Width of the sidebar.", minimum=0, maximum=100_000, shown=False),
)


class SettingsTable:
    """Settings by name, the old names too."""

    def __init__(self, settings: Iterable[Setting] = SETTINGS) -> None:
        self.settings = tuple(settings)
        self._by_name = {setting.name: setting for setting in self.settings}
        self._renamed = {old: setting for setting in self.settings for old in setting.renamed_from}

    def __getitem__(self, name: str) -> Setting:
        return self._by_name[name]

    def find(self, name: str) -> Setting | None:
        return self._by_name.get(name) or self._renamed.get(name)
