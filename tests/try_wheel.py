"""Install the wheel as the docs say, in an environment of its own without CUDA, and use it there: `make dist`.

python tests/try_wheel.py DIST

The environment lies in a temporary folder, and commands run there: nothing of the source tree is in reach.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import urllib.request
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "install.md"
COMMANDS = (
    "flatfed --version",
    "flatfed list algorithms",
    "flatfed published --paper fedsam --method fedasam+swa",
    "flatfed claims --paper fedgloss",
    "flatfed study list",
    "flatfed run digits fedavg --rounds 2 --workers 0 --out run",
    "flatfed show run",
    "flatfed report run",
    "flatfed deploy init --help",
)
NO_CUDA = "import torch; assert torch.version.cuda is None, torch.__version__"
ELSEWHERE = "import flatfed, sys; assert flatfed.__file__.startswith(sys.prefix), flatfed.__file__"
ADDRESS = re.compile(r"http://\S+")


def documented_lines() -> list[str]:
    """Return the lines of the page that install flatfed with pip, and the one that tries it."""
    text = PAGE.read_text(encoding="utf-8")
    lines = re.findall(r"^    (pip install .*)$", text, re.MULTILINE)
    return [*lines[:1], *re.findall(r"^    (flatfed run .*)$", text, re.MULTILINE)]


def contents(record: str) -> set[str]:
    """Return the files of the package in a wheel's record, with their hashes."""
    return {line for line in record.splitlines() if line.startswith("flatfed/") and "sha256=" in line}


class Environment:
    """A new virtual environment in a folder, and commands in it."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=True)
        programs = folder / "venv" / "bin"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.variables = kept | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
            "PIP_FIND_LINKS": f"{os.environ.get('PIP_FIND_LINKS', '')} {wheel.parent.resolve()}".strip(),
            "PIP_QUIET": "1",
        }

    def run(self, *words: str) -> None:
        """Run a command, or end with what it said."""
        done = subprocess.run(words, cwd=self.folder, env=self.variables, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{shlex.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        print(f"ok  {shlex.join(words)}")

    def check_installed(self, wheel: Path) -> None:
        """Check that what is installed is this wheel, whole."""
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
            wanted = contents(archive.read(name).decode())
        record = next(self.folder.glob(f"venv/lib/python*/site-packages/{name}"))
        if not wanted or not wanted <= contents(record.read_text(encoding="utf-8")):
            sys.exit(f"{wheel} is not what was installed")

    def open_dashboard(self) -> None:
        """Start the dashboard, and fetch its page."""
        words = ["flatfed", "dashboard", "--port", "0", "--no-open"]
        with subprocess.Popen(words, cwd=self.folder, env=self.variables, stdout=subprocess.PIPE, text=True) as started:
            address = next(filter(None, map(ADDRESS.search, started.stdout or ())), None)
            page = b"" if address is None else urllib.request.urlopen(address[0]).read()
            started.terminate()
        if b"<script" not in page:
            sys.exit("the dashboard has no page")
        print(f"ok  {shlex.join(words)}")


def main(dist: Path) -> None:
    """Install, look and use."""
    wheel = next(dist.glob("*.whl"))
    install, *first = documented_lines()
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(Path(folder), wheel)
        environment.run("pip", "install", "torch")
        environment.run(*shlex.split(install))
        environment.check_installed(wheel)
        environment.run("pip", "check")
        environment.run("python", "-c", NO_CUDA)
        environment.run("python", "-c", ELSEWHERE)
        for command in [*first, *COMMANDS]:
            environment.run(*shlex.split(command))
        environment.open_dashboard()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
