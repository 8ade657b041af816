"""Errors in code of the user's own: what went wrong, and where to look."""

from __future__ import annotations

import traceback

NOT_THE_USERS = (
    *("importlib", "site-packages"),
    *("flatfed/core", "flatfed/data", "flatfed/models", "flatfed/named_code", "flatfed/outside"),
)
"""Parts of the paths of files that are not the user's: a line in them says nothing about an error of the user's."""

SUFFIX = ".py"


def explained(error: BaseException) -> str:
    """Return what went wrong and, where it was in the user's own file, where."""
    reason = " ".join(str(error).split()) or type(error).__name__
    place = traceback.extract_tb(error.__traceback__)[-1]
    if _is_the_users(place.filename):
        return f"{reason} ({place.filename}, line {place.lineno})"
    return reason


def _is_the_users(file: str) -> bool:
    return not any(part in file for part in NOT_THE_USERS)


def not_imported(error: BaseException, module: str) -> str:
    """Return why a module cannot be imported and, where it is not found at all, what to do."""
    return f"{explained(error)}{_where_to_start(error, module)}"


def _where_to_start(error: BaseException, module: str) -> str:
    """Return what to do where a module is not found at all; one that is found may lack others, of which it says so."""
    if module.endswith(SUFFIX):
        return f"; a module is named without its ending: {module.removesuffix(SUFFIX)}"
    # With the dots, because `net` is no parent of `network`.
    if not isinstance(error, ModuleNotFoundError) or not f"{module}.".startswith(f"{error.name}."):
        return ""
    return "; start in the folder that holds it (where the run was started), or put that folder into PYTHONPATH"
