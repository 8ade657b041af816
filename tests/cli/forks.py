"""Started as `python -P forks.py COMMANDS`: runs commands of flatfed, each in a process of its own and in its folder.

Each is forked after the imports: as fresh as one that was just started, without the seconds that importing torch takes.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import sklearn.datasets  # noqa: F401  (imported here, once, and not in each fork)
import torch.func  # noqa: F401

from flatfed.cli.main import main


def command(folder: str, arguments: list[str], out: Path, err: Path) -> int:
    """Run one command in a fork and return its exit code."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.chdir(folder)
            for number, file in ((1, out), (2, err)):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            main(arguments)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    outcomes = []
    with tempfile.TemporaryDirectory() as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        for folder, arguments in json.loads(sys.argv[1]):
            code = command(folder, arguments, out, err)
            outcomes.append((code, out.read_text(), err.read_text()))
    print(json.dumps(outcomes))
