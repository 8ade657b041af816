"""Tables of methods x settings: the exact text of a small one in each form, escaping, and that LaTeX takes it."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from flatfed.reports.tables.latex import escape_latex, pivot_latex
from flatfed.reports.tables.pivot import Pivot, PivotCell, decimals_for, pivot_csv, pivot_markdown

SMALL = Pivot(
    rows=["fedavg", "fed_sam+λ"],
    columns=["α = 0", "100 % & more"],
    cells={
        ("fedavg", "α = 0"): PivotCell(61.204, 1.35, is_second=True),
        ("fedavg", "100 % & more"): PivotCell(has_diverged=True),
        ("fed_sam+λ", "α = 0"): PivotCell(64.5, 0.5, is_best=True),
        ("fed_sam+λ", "100 % & more"): PivotCell(70.126, is_best=True),
    },
    caption="Digits, 50 % of clients",
    note="Test accuracy in %, mean ± standard deviation over 3 seeds.",
    label="tab:digits",
)


def test_the_latex_of_a_small_table() -> None:
    assert (
        pivot_latex(SMALL)
        == r"""% needs \usepackage{booktabs, siunitx, pifont}, siunitx of version 3 or later
\begin{table}
  \centering
  \small
  \setlength{\tabcolsep}{3pt}
  \sisetup{mode = text, reset-text-series = false, text-series-to-math = true, uncertainty-mode = separate}
  \caption{Digits, 50 \% of clients}
  \label{tab:digits}
  \begin{tabular}{lrr}
    \toprule
    method & \ensuremath{\alpha} = 0 & 100 \% \& more \\
    \midrule
    fedavg & \underline{\num{61.20 \pm 1.35}} & \ding{55} \\
    fed\_sam+\ensuremath{\lambda} & \textbf{\num{64.50 \pm 0.50}} & \textbf{\num{70.13}} \\
    \bottomrule
  \end{tabular}

  \smallskip
  \parbox{\linewidth}{\footnotesize Test accuracy in \%, mean \ensuremath{\pm} standard deviation over 3 seeds. """
        + (
            r"""Best \textbf{bold}; second best \underline{underlined}; \ding{55} diverged.}
\end{table}
"""
        )
    )


def test_the_markdown_of_a_small_table() -> None:
    assert pivot_markdown(SMALL) == (
        "**Digits, 50 % of clients**\n"
        "\n"
        "| method | α = 0 | 100 % \\& more |\n"
        "| :-- | --: | --: |\n"
        "| fedavg | <u>61.20 ± 1.35</u> | ✗ |\n"
        "| fed\\_sam+λ | **64.50 ± 0.50** | **70.13** |\n"
        "\n"
        "Test accuracy in %, mean ± standard deviation over 3 seeds. "
        "Best **bold**; second best <u>underlined</u>; ✗ diverged.\n"
    )


def test_the_csv_has_all_digits() -> None:
    assert pivot_csv(SMALL) == (
        "method,setting,mean,std,mark,remark\n"
        "fedavg,α = 0,61.204,1.35,second,\n"
        "fedavg,100 % & more,,,,diverged\n"
        "fed_sam+λ,α = 0,64.5,0.5,best,\n"
        "fed_sam+λ,100 % & more,70.126,,best,\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fedgloss(admm=false)", "fedgloss(admm=false)"),
        ("feddyn+sam", "feddyn+sam"),
        ("50 % #1 & a_b", r"50 \% \#1 \& a\_b"),
        ("λ, ρ, µ and μ", r"\ensuremath{\lambda}, \ensuremath{\rho}, \ensuremath{\mu} and \ensuremath{\mu}"),
        ("λ₅, x²", r"\ensuremath{\lambda}\textsubscript{5}, x\textsuperscript{2}"),
        (r"$x^2$ \alpha {a}", r"\$x\textasciicircum{}2\$ \textbackslash{}alpha \{a\}"),
        ("--rho --- x", r"-{}-rho -{}-{}- x"),
        ("1 – 2", r"1 \textendash{} 2"),
        ("[a] * <b>", r"{[}a{]} {*} \textless{}b\textgreater{}"),
        ("Straße, naïve, Łódź", "Straße, naïve, Łódź"),
        ("± × ≤ ✗", r"\ensuremath{\pm} \ensuremath{\times} \ensuremath{\leq} \ding{55}"),
        ("方", "{[}U+65B9{]}"),
        ("a\tb\n", "a{[}U+0009{]}b{[}U+000A{]}"),
        ('"a"', "{''}a{''}"),
        ("", ""),
    ],
)
def test_escaping_for_latex(text: str, expected: str) -> None:
    assert escape_latex(text) == expected


def test_markdown_takes_names_as_they_are() -> None:
    table = Pivot(["a|b", "*x*", "<b>", "`c`", "[d](e)"], [""], {})
    lines = pivot_markdown(table).splitlines()
    assert lines[0] == "| method | all |"
    assert lines[2:] == [
        r"| a\|b | – |",
        r"| \*x\* | – |",
        r"| \<b\> | – |",
        r"| \`c\` | – |",
        r"| \[d\](e) | – |",
    ]


def test_a_csv_can_be_read_back() -> None:
    table = Pivot(['a, "b"', "c\nd"], ["x"], {('a, "b"', "x"): PivotCell(1.0, remark="")})
    rows = list(csv.DictReader(io.StringIO(pivot_csv(table))))
    assert [row["method"] for row in rows] == ['a, "b"', "c\nd"]
    assert [row["mean"] for row in rows] == ["1.0", ""]


def test_what_has_no_mean_says_why() -> None:
    table = Pivot(
        ["a"], ["x", "y", "z"], {("a", "x"): PivotCell(remark="1 of 3 seeds"), ("a", "y"): PivotCell(math.nan)}
    )
    assert "| a | 1 of 3 seeds | ✗ | – |" in pivot_markdown(table)
    assert r"a & 1 of 3 seeds & \ding{55} & \textendash{} \\" in pivot_latex(table)


def test_many_settings_take_both_columns_of_a_page() -> None:
    names = [f"s{number}" for number in range(4)]
    assert r"\begin{table*}" in pivot_latex(Pivot(["a"], names, {}))
    assert r"\begin{table}" in pivot_latex(Pivot(["a"], names[:2], {}))


@pytest.mark.parametrize(
    ("values", "is_percent", "expected"),
    [([81.2], True, 2), ([0.512, 2.3], False, 3), ([1234.5, 0.1], False, 0), ([0.00123], False, 6), ([], False, 2)],
)
def test_decimals(values: list[float], is_percent: bool, expected: int) -> None:
    assert decimals_for(values, is_percent) == expected


def test_every_brace_closes() -> None:
    text = pivot_latex(SMALL).replace(r"\{", "").replace(r"\}", "")
    depth = 0
    for letter in text:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        assert depth >= 0
    assert depth == 0


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_pdflatex_takes_it_and_nothing_is_too_wide(tmp_path: Path) -> None:
    awkward = [r"[a] %_&# \x ^~", "--ρ λ₅ ± ✗ <|>", "\"quoted\" `x` 'y'", "*star*"]
    table = replace(SMALL, rows=[*SMALL.rows, *awkward])
    text = "\\documentclass{article}\n\\usepackage{textcomp, booktabs, siunitx, pifont}\n"
    text += f"\\begin{{document}}\n{pivot_latex(table)}\\end{{document}}\n"
    (tmp_path / "table.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    log = (tmp_path / "table.log").read_text(encoding="utf-8", errors="replace")
    assert re.findall(r"Overfull .*", log) == []
