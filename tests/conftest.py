"""Where a result must not depend on luck (CI is set), Hypothesis draws the same examples every time."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")
