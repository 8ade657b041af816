"""Write `shares.txt` anew from the times of a whole run: `python tests/write_shares.py JUNIT.xml`, or `make shares`.

A test whose cases take longer together than `SECONDS` (in some files `MORE`) keeps as many of them in `make test` as
fit into that, and a test whose cases each take longer than `LONG` keeps none; what is in `ALWAYS` stays whole.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict

from shares import LIST

SECONDS, LONG = 0.3, 1.2
HEAD = """\
# Tests that take long, and how many of their cases `make test` runs; `make test-rest` runs the others.
# Written by `make shares` from measured times.
"""
MORE = {
    # Every method against its independent twin: the heart of it all.
    "tests/methods/test_battery.py": 4.0,
    "tests/methods/test_naive.py": 4.0,
}
ALWAYS = (
    # One federation on Flower, and one Ray, which is there once for all tests that need it.
    "tests/flower/",
    "tests/engines/test_ray.py",
    "tests/engines/test_exactness.py::test_every_engine",
    "tests/engines/test_deaths.py::test_a_client_that_always_kills_its_worker",
    "tests/cli/test_engines.py::test_compare_and_resume",
    # Commands in processes of their own, as people run them: one of each kind.
    "tests/cli/test_run.py::test_a_process_of_its_own",
    "tests/cli/test_resume_show.py::test_control_c_on_a_terminal",
    "tests/cli/test_list.py::test_a_pipe_that_closes_early",
    "tests/docs/test_examples.py::test_fifteen_lines",
    "tests/docs/test_pages.py::test_the_index",
    "tests/sites/test_process.py::test_a_federation_of_commands",
)
TOGETHER = {
    # One fixture kills a hundred runs for all of them; the one that is left resumes a killed run too.
    "tests/runs/test_kill.py": "test_a_killed_run_is_resumed_in_this_process_as_well",
}


def seconds_of_cases(junit: str) -> dict[str, list[float]]:
    """Return how long the cases of each test function took."""
    cases: dict[str, list[float]] = defaultdict(list)
    for case in ElementTree.parse(junit).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        file = case.get("classname", "").replace(".", "/") + ".py"
        function = case.get("name", "").partition("[")[0]
        cases[f"{file}::{function}"].append(float(case.get("time", 0)))
    return cases


def stay(name: str, seconds: list[float]) -> int:
    """Return how many cases of a test stay in `make test`."""
    file, _, function = name.partition("::")
    if file in TOGETHER:
        return int(function == TOGETHER[file])
    if name.startswith(ALWAYS):
        return len(seconds)
    together, allowed = sum(seconds), MORE.get(file, SECONDS)
    if together / len(seconds) > LONG:
        return 0
    if len(seconds) == 1:
        return 1
    if together <= allowed:
        return len(seconds)
    return max(1, int(len(seconds) * allowed / together))


def main() -> None:
    """Write the list."""
    lines = []
    for name, seconds in sorted(seconds_of_cases(sys.argv[1]).items()):
        is_function = ".py::test_" in name  # a method of a class is left alone
        count = stay(name, seconds)
        if is_function and count < len(seconds):
            lines.append(f"{name} {count}\n")
    LIST.write_text(HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
