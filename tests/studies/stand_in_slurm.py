"""A stand-in for Slurm: `sbatch` writes what it was given and starts the script as ordinary processes, one per task."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

SBATCH = """
import json, os, re, shlex, shutil, subprocess, sys
from pathlib import Path

here = Path(__file__).parent
script = Path(sys.argv[1])
lines = re.findall(r"^#SBATCH --([a-z-]+)=?(.*)$", script.read_text(), re.M)
options = {name: "".join(shlex.split(value)) for name, value in lines}
(here / "given.json").write_text(json.dumps(options))
# As the real one does: the file may be moved when this returns.
shutil.copy(script, here / "job.sh")
tasks = range(int(re.match(r"0-(\\d+)", options["array"])[1]) + 1) if "array" in options else [None]
for task in tasks:
    variables = os.environ | {"SLURM_JOB_ID": "4711", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    if task is not None:
        variables |= {"SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": str(task), "SLURM_JOB_ID": str(4712 + task)}
    if "cpus-per-task" in options:
        variables["SLURM_CPUS_PER_TASK"] = options["cpus-per-task"]
    quiet = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.DEVNULL)
    node = [sys.executable, str(here / "node.py"), "4711" if task is None else f"4711_{task}"]
    process = subprocess.Popen(node, env=variables, start_new_session=True, **quiet)
    (here / f"group-{process.pid}").touch()
print("Submitted batch job 4711")
"""

NODE = """
import subprocess, sys
from pathlib import Path

here, task = Path(__file__).parent, sys.argv[1]
while True:
    code = subprocess.run(["bash", str(here / "job.sh")]).returncode
    if not (here / f"requeue-{task}").exists():
        break
    (here / f"requeue-{task}").rename(here / f"came-back-{task}")
(here / f".ended-{task}").write_text(str(code))
(here / f".ended-{task}").rename(here / f"ended-{task}")
"""

SRUN = """
import os, sys

words = sys.argv[1:]
assert words[0] == "--unbuffered" and words[1] == "--output" and words[3] == "--error"
names = {"%A": "SLURM_ARRAY_JOB_ID", "%a": "SLURM_ARRAY_TASK_ID", "%j": "SLURM_JOB_ID", "%t": "SLURM_PROCID"}
for number, file in ((1, words[2]), (2, words[4])):
    for name, variable in names.items():
        file = file.replace(name, os.environ.get(variable, ""))
    os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), number)
os.execvp(words[5], words[5:])
"""

SCONTROL = """
import sys
from pathlib import Path

assert sys.argv[1] == "requeue"
(Path(__file__).parent / f"requeue-{sys.argv[2]}").touch()
"""


class StandInSlurm:
    """The programs in a folder, and what became of the tasks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name, text in {"sbatch": SBATCH, "srun": SRUN, "scontrol": SCONTROL}.items():
            (folder / name).write_text(f"#!{sys.executable}\n{text}")
            (folder / name).chmod(0o755)
        (folder / "node.py").write_text(NODE)

    def codes(self) -> dict[str, int]:
        """Return the codes of the tasks that have ended."""
        files = self.folder.glob("ended-*")
        return {file.name.removeprefix("ended-"): int(file.read_text()) for file in files}

    def came_back(self) -> list[str]:
        """Return the tasks that were put back into the queue and started again."""
        return [file.name.removeprefix("came-back-") for file in self.folder.glob("came-back-*")]

    def close(self) -> None:
        """End what a test that failed has left running."""
        for file in self.folder.glob("group-*"):
            with suppress(ProcessLookupError):
                os.killpg(int(file.name.removeprefix("group-")), signal.SIGKILL)
