"""Parts from outside flatfed that a server names: imported only where the site's own file approves that very code.

`limits.parts` has their import paths, each with a hash of the author's modules. The files here are read and compared
with it before any of them is imported. `flatfed site check` shows the hash of what lies here.
"""

from __future__ import annotations

from collections.abc import Sequence

from flatfed.core.configuration.registry import FAMILIES
from flatfed.engines.sites.assignment import OutsidePart
from flatfed.named_code import USER
from flatfed.outside.named_parts import find_part
from flatfed.outside.source_hashes import sources_of
from flatfed.site.config import Limits
from flatfed.site.data import NotAllowed

SHOWN = 12
"""Digits of a hash in a sentence."""


def enter_approved(parts: Sequence[OutsidePart], limits: Limits) -> None:
    """Let the families hold the parts that a server names; what is not approved is refused before it is imported."""
    for part in parts:
        _check(part, limits)
    for part in parts:
        _enter(part)


def _check(part: OutsidePart, limits: Limits) -> None:
    """Refuse a part that the site's file does not name, or whose code is not the approved one."""
    approved = limits.approved.get(part.path)
    if approved is None:
        raise NotAllowed(
            f"this site does not allow the code {part.path!r:.120}; its administrator may name it in limits.parts, "
            "with its hash"
        )
    here = sources_of(part.path.partition(":")[0]).digest
    if here != approved:
        raise NotAllowed(
            f"the code of {part.path} at this site ({here[:SHOWN]}) is not what limits.parts approves "
            f"({approved[:SHOWN]}); put it back, or approve it anew"
        )
    if here != part.digest:
        raise NotAllowed(
            f"this site has other code of {part.path} ({here[:SHOWN]}) than the server ({part.digest[:SHOWN]!r}); take "
            "the same files, those that they import too"
        )


def _enter(part: OutsidePart) -> None:
    family = FAMILIES.get(part.family)
    if family is None:
        raise NotAllowed(f"{part.path} cannot be a {part.family!r:.40} at a site")
    # The site's file names it: that is the site's own word.
    cls = find_part(part.path, [family], USER)
    if cls.id != part.id:
        raise NotAllowed(f"{part.path} has the id {cls.id!r} at this site and {part.id!r:.60} at the server")
