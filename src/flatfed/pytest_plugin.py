"""The pytest plugin: failures of the battery show the numbers, and `check_method` is there as a fixture."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.register_assert_rewrite("flatfed.testing.assertions", "flatfed.testing.bench")


@pytest.fixture
def check_method() -> Callable[..., None]:
    """The battery: `check_method(MyMethod, naive)`."""
    # Here, because torch takes seconds, and most tests of a package do without it.
    from flatfed.testing import check_method as check

    return check
