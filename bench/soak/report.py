"""What a soak found, as a record and as Markdown tables."""

from __future__ import annotations

import os
import platform
import statistics
from importlib.metadata import version
from pathlib import Path
from typing import Any

from plan import Fault
from playing import OPTIONS, Story
from run_files import counts, differences, litter
from samples import ENOUGH_ROUNDS, EXPECTED_TO_GROW, MEASURES, trends

Record = dict[str, Any]


def record(command: dict[str, int], faults: list[Fault], stories: dict[str, Story], runs: dict[str, Path]) -> Record:
    """Return all that a soak found."""
    disturbed = stories["disturbed"]
    return {
        "command": command,
        "options": OPTIONS,
        "machine": machine(),
        "differences": differences(runs["disturbed"], runs["undisturbed"]),
        "compared": counts(runs["undisturbed"]),
        "litter": litter(runs["disturbed"]),
        "faults": disturbed.counts,
        "not_played": len(faults) - disturbed.played,
        "starts": disturbed.starts,
        "planned_stops": disturbed.planned_stops,
        "rounds_again": disturbed.rounds_again,
        "seconds": {name: story.seconds for name, story in stories.items()},
        "resumed": disturbed.resumed,
        "problems": [problem for story in stories.values() for problem in story.problems],
        "trends": {name: trends(story.samples, command["rounds"]) for name, story in stories.items()},
        "samples": {name: story.samples for name, story in stories.items()},
    }


def machine() -> Record:
    """Return what the figures were taken on."""
    return {"cores": os.cpu_count(), "processor": processor(), "torch": version("torch")}


def processor() -> str:
    """Return the name of the processor."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def passed(found: Record) -> bool:
    """Say whether all went as it should: equal bits, nothing left over, no problem, and nothing that grows."""
    return not (found["differences"] or found["litter"] or found["problems"] or growing(found))


def growing(found: Record) -> list[str]:
    """Return what grows and should not."""
    return [
        f"{MEASURES[measure]} ({name})"
        for name, lines in found["trends"].items()
        for measure, line in lines.items()
        if line["grows"] and measure not in EXPECTED_TO_GROW
    ]


def markdown(found: Record) -> str:
    """Return the tables."""
    return "\n".join([*outcome(found), "", *fault_table(found), "", *trend_table(found)])


def outcome(found: Record) -> list[str]:
    """Return what came of it, a line for each question."""
    compared = ", ".join(f"{number:,} {what}" for what, number in found["compared"].items())
    seconds = found["seconds"]
    answers = {
        "compared with the undisturbed run": f"{compared}: {named(found['differences'], 'equal to the bit')}",
        "faults": f"{sum(found['faults'].values()):,}, not played {found['not_played']}",
        "processes started": f"{found['starts']:,}, of them {found['planned_stops']} after a planned stop",
        "rounds done again": f"{found['rounds_again']:,}",
        "seconds": f"{seconds['undisturbed']:,.0f} undisturbed, {seconds['disturbed']:,.0f} with faults",
        "seconds from start to the first new row": resume_times(found),
        "problems (hangs, other exit codes, tracebacks)": str(len(found["problems"])),
        "files that belong to nothing": named(found["litter"], "none"),
        "grows": grown(found),
    }
    return ["| question | answer |", "|---|---|", *(f"| {what} | {answer} |" for what, answer in answers.items())]


def grown(found: Record) -> str:
    """Return what grows, in words."""
    if found["command"]["rounds"] < ENOUGH_ROUNDS:
        return f"not judged below {ENOUGH_ROUNDS:,} rounds"
    return named(growing(found), "nothing but the history")


def named(items: list[str], otherwise: str) -> str:
    """Return the items, or what is said where there is none."""
    return ", ".join(items) or otherwise


def resume_times(found: Record) -> str:
    """Return how long it took from a start to the first new row."""
    seconds = [entry["seconds"] for entry in found["resumed"]]
    if not seconds:
        return "none"
    return f"median {statistics.median(seconds):.1f}, most {max(seconds):.1f}"


def fault_table(found: Record) -> list[str]:
    """Return how many faults of each kind there were."""
    rows = [f"| {kind} | {number} |" for kind, number in sorted(found["faults"].items())]
    return ["| fault | times |", "|---|---:|", *rows]


def trend_table(found: Record) -> list[str]:
    """Return what the runs took of the machine."""
    lines = [
        "| measure | run | least | median | most | slope per 1,000 rounds | grows |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for measure, about in MEASURES.items():
        for name, trend_of in found["trends"].items():
            if measure in trend_of:
                lines.append(f"| {about} | {name} | {numbers(measure, trend_of[measure])} |")
    return lines


def numbers(measure: str, line: Record) -> str:
    """Return a line's numbers; bytes as kB."""
    unit, suffix, digits = 1, "", 2
    if measure.endswith("bytes"):
        unit, suffix, digits = 1000, " kB", 1
    level = [f"{line[name] / unit:,.0f}" for name in ("least", "median", "most")]
    answer = "yes" if line["grows"] else "no"
    return " | ".join(
        [*(text + suffix for text in level), f"{line['slope_per_1000'] / unit:+,.{digits}f}{suffix}", answer]
    )
