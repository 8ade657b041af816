"""Where the parts of a run come from that are not flatfed's own: module, package, version, and hashes of the files.

A record has one entry for each. When the run is opened, what it names is imported, if whoever names it may do so, and
compared with what was there when the run was made.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from flatfed.core.configuration.checking import escaped
from flatfed.core.configuration.config import Config, parameters
from flatfed.core.configuration.registry import FAMILIES
from flatfed.core.errors import ConfigError
from flatfed.named_code import NamedBy, origin_of, place_of
from flatfed.outside.installed import enter_installed
from flatfed.outside.named_parts import find_part
from flatfed.outside.source_hashes import OWN, SCRIPT, Sources, installed_package, sources_of

ORIGINS = "origins"
"""Where a record has the parts from outside."""


@dataclass(frozen=True)
class PartOrigin:
    """Where one part comes from.

    Args:
        family: what it is: `algorithm`, `client optimiser`, `model`.
        id: how the record names it.
        module: where it is written.
        name: its name there.
        package: the installed package that the module belongs to; None where it belongs to none.
        version: of that package, or of the module where it says one.
        sha256: the hash of the module's file; None where it has none.
        modules: the hashes of its author's other modules that it imports, by name; None in records of before.
        uses: the versions of the packages by others that all of these import; None in records of before.
    """

    family: str
    id: str
    module: str
    name: str
    package: str | None = None
    version: str | None = None
    sha256: str | None = None
    modules: Mapping[str, str] | None = None
    uses: Mapping[str, str] | None = None

    @classmethod
    def of(cls, family: str, id: str, thing: Any) -> PartOrigin:
        """Return where a class or function comes from."""
        module = origin_of(thing)
        package, release = package_of(module)
        name = getattr(thing, "__qualname__", type(thing).__qualname__)
        made_of = sources_of(module)
        return cls(family, id, module, name, package, release, made_of.sha256, made_of.modules, made_of.uses)

    @property
    def path(self) -> str:
        """How it is imported."""
        return f"{self.module}:{self.name}"

    @property
    def home(self) -> str:
        """Where it comes from, for people: package and version, or the module."""
        if self.package is None:
            return self.module
        return f"{self.package} {self.version}"

    @property
    def digest(self) -> str:
        """One hash of all of its author's modules."""
        return Sources(self.sha256, self.modules or {}).digest

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return asdict(self)


def is_outside(thing: Any) -> bool:
    """Say whether a class or function is none of flatfed's own or torch's."""
    return origin_of(thing).partition(".")[0] not in OWN


def origins_of(configs: Iterable[Any], functions: Iterable[tuple[str, str, Any]] = ()) -> list[dict[str, Any]]:
    """Return the record of all parts from outside: configurations with what is in them, and functions or classes.

    Args:
        configs: configurations; other values are passed over.
        functions: what each is (`model`), how the record names it, and the thing itself.
    """
    return [origin.to_dict() for origin in found_origins(configs, functions)]


def found_origins(configs: Iterable[Any], functions: Iterable[tuple[str, str, Any]] = ()) -> list[PartOrigin]:
    """Return where all parts from outside come from, in the order of families and ids."""
    classes = [(type(part).registry.kind, part.id, type(part)) for part in _parts(configs) if part.id]
    found = {(family, id): thing for family, id, thing in (*classes, *functions) if is_outside(thing)}
    return [PartOrigin.of(family, id, thing) for (family, id), thing in sorted(found.items(), key=_names)]


def _names(entry: tuple[tuple[str, str], Any]) -> tuple[str, str]:
    return entry[0]


def _parts(values: Iterable[Any]) -> Iterator[Any]:
    """Yield configurations and those inside of them: client optimisers, schedules."""
    for value in values:
        if isinstance(value, Config):
            if hasattr(type(value), "registry"):
                yield value
            yield from _parts(getattr(value, name) for name in parameters(type(value)))


def recorded_origins(record: Mapping[str, Any]) -> list[PartOrigin]:
    """Return the parts from outside that a record names; earlier versions named none."""
    try:
        return [
            PartOrigin(**{name: _text(value) for name, value in entry.items()}) for entry in record.get(ORIGINS, ())
        ]
    except (TypeError, AttributeError):
        raise ConfigError(f"{ORIGINS} of this record cannot be read; it lists parts, each with texts by name") from None


def told_origins(record: Mapping[str, Any]) -> dict[str, str]:
    """Return for people where each part from outside comes from, by what it is called: `algorithm louder`.

    Nothing is imported. What a record says is shown with codes in the place of control characters.
    """
    return {escaped(f"{each.family} {each.id}"): escaped(_told(each)) for each in recorded_origins(record)}


def _told(origin: PartOrigin) -> str:
    return origin.path if origin.package is None else f"{origin.path} of {origin.home}"


def outside_text(records: Iterable[Mapping[str, Any]]) -> str:
    """Return where the parts come from that are not flatfed's own, as the records say it; nothing is imported."""
    parts: dict[str, str] = {}
    for record in records:
        parts |= told_origins(record)
    # Models, data and metrics are called by their path.
    return "; ".join(f"{name} is {home}" for name, home in parts.items() if not name.endswith(f" {home}"))


def _text(value: Any) -> Any:
    """Return a text, texts by name, or None."""
    texts = value.values() if isinstance(value, dict) else [value]
    if not all(isinstance(text, str | None) for text in texts):
        raise TypeError("not a text")
    return value


REPLACEABLE = "engine"
"""The family of which another member does as well: one that may not be imported is missed only where it is used."""


def enter_recorded(record: Mapping[str, Any], by: NamedBy) -> None:
    """Let the families hold what a record names: as it is here already, as it is installed, or imported if it may be.

    `by` says whose word the record is. Models, data and metrics are found by those who build them.
    """
    for origin in recorded_origins(record):
        family = FAMILIES.get(origin.family)
        if family is None or origin.id in family:
            continue
        enter_installed(family, origin.id)
        if origin.id in family:
            continue
        if origin.module == SCRIPT:
            raise ConfigError(
                f"the {origin.family} {origin.id!r} of {by.file} was written in a script or notebook; define it there "
                "before you open the run, or put it into a module"
            )
        try:
            cls = find_part(origin.path, [family], by)
        except ConfigError:
            if origin.family == REPLACEABLE:
                continue
            raise
        if origin.id not in family:
            raise ConfigError(f"{origin.path} has the id {cls.id!r} now, and {by.file} knows it as {origin.id!r}")


def changes_of_code(before: Iterable[PartOrigin], now: Iterable[PartOrigin]) -> list[str]:
    """Return what is other code than when a run was made, one sentence each."""
    today = {(origin.family, origin.id): origin for origin in now}
    pairs = ((origin, today.get((origin.family, origin.id))) for origin in before)
    return [_change(origin, other) for origin, other in pairs if other is not None and _differs(origin, other)]


def changed_parts(record: Mapping[str, Any]) -> str:
    """Return what of the parts of a record that are in their families is other code now; empty where nothing is."""
    before = [origin for origin in recorded_origins(record) if origin.id in FAMILIES.get(origin.family, ())]
    now = [PartOrigin.of(each.family, each.id, FAMILIES[each.family][each.id]) for each in before]
    return "; ".join(changes_of_code(before, now))


def _differs(before: PartOrigin, now: PartOrigin) -> bool:
    # What was written in a script or notebook changes with every line around it, and has another module elsewhere.
    if SCRIPT in (before.module, now.module):
        return False
    return (before.path, before.sha256) != (now.path, now.sha256) or bool(_helpers(before, now) or _others(before, now))


def _change(before: PartOrigin, now: PartOrigin) -> str:
    part = f"the {before.family} {before.id}"
    if before.path != now.path:
        return f"{part} was {before.path} and is {now.path}"
    if before.version != now.version:
        return f"{part} was of {before.home} and is of {now.home}"
    own = [now.module] if before.sha256 != now.sha256 else []
    changed = [*own, *_helpers(before, now)]
    if changed:
        files = sources_of(now.module).files
        return f"{part} was changed in {', '.join(str(files.get(name, name)) for name in changed)}"
    return f"{part} was used with other packages: {', '.join(_others(before, now))}"


def _helpers(before: PartOrigin, now: PartOrigin) -> list[str]:
    """Return the modules besides its own that are others; of records of before nobody can tell."""
    return [] if before.modules is None else _unlike(before.modules, now.modules or {})


def _others(before: PartOrigin, now: PartOrigin) -> list[str]:
    """Return the packages by others that are others, with their versions."""
    then, today = before.uses, now.uses or {}
    if then is None:
        return []
    return [f"{name} {then.get(name, 'none')}, now {today.get(name, 'none')}" for name in _unlike(then, today)]


def _unlike(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def package_of(module: str) -> tuple[str | None, str | None]:
    """Return the installed package that a module belongs to, and its version; or the version that the module says."""
    file = place_of(module).file if module in sys.modules else None
    package, version = (None, None) if file is None else installed_package(module, file)
    if package is not None:
        return package, version
    said = getattr(sys.modules.get(module.partition(".")[0]), "__version__", None)
    return None, said if isinstance(said, str) else None
