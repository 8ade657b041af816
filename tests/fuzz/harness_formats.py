"""atheris on the readers of bytes: `python harness_formats.py NAME -runs=20000`, NAME as in `formats.py`."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["flatfed.data.formats", "flatfed.runs", "flatfed.core.method.messages"]):
    from fuzz.formats import FORMATS
    from fuzz.harness import run, through_file

if __name__ == "__main__":
    name = sys.argv.pop(1)
    run(through_file(FORMATS[name].read), {"whole": FORMATS[name].whole})
