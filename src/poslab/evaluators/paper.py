"""The main tables for a paper: table.tex for LaTeX with booktabs, table.csv for anything else."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..files import replacing, write
from .base import Evaluator
from .groups import Group
from .report import Section, uncertainty

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "\n": " ",
}  # fmt: skip


def write_tables(directory: Path, sections: Sequence[Section]) -> None:
    """Write table.tex and table.csv: of each evaluator and group the first metric, as printed in the report."""
    tables = [(section.evaluator, metrics[0]) for section in sections for metrics in section.groups]
    head = "% Needs \\usepackage{booktabs}. A wide table fits a page with \\small, or as table* in two columns.\n"
    latex = head + "\n".join(latex_table(group, evaluator) for evaluator, group in tables)
    write(directory / "table.tex", latex)
    sizes = list(dict.fromkeys(size for _, group in tables for size in group.sizes))
    with replacing(directory / "table.csv") as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["evaluator", "group", "metric", "encoding", "runs", *sizes])
        for evaluator, group in tables:
            for line in group.lines:
                cells = (line.text(size, group.metric) if size in group.sizes else "" for size in sizes)
                words = evaluator.name, group.title, group.metric.label, line.label, len(line.subjects)
                writer.writerow([*words, *cells])


def latex_table(group: Group, evaluator: type[Evaluator]) -> str:
    """One table environment. Nothing is bold: the differences are from the baseline, and do not say which is best."""
    sizes = [rf"\textbf{{{size}}}" if size == group.reference else size for size in group.sizes]
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{caption(group, evaluator)}}}",
            rf"  \begin{{tabular}}{{l{'r' * len(sizes)}}}",
            r"    \toprule",
            f"    {' & '.join(['encoding', *sizes])} \\\\",
            r"    \midrule",
            *(f"    {' & '.join(row)} \\\\" for row in rows(group)),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def rows(group: Group) -> Iterator[list[str]]:
    """Cells as in the report; + and - in superscript where the difference from the baseline is separable."""
    signs = {"better": "$^{+}$", "worse": "$^{-}$"}
    for line in group.lines:
        cells = []
        for size in group.sizes:
            verdict = group.verdict(line, size).rpartition(" ")[2]
            cells.append(escape(line.text(size, group.metric)) + signs.get(verdict, ""))
        yield [escape(line.label), *cells]


def caption(group: Group, evaluator: type[Evaluator]) -> str:
    """What the numbers are, how sure, and the whole protocol."""
    protocol = group.lines[0].subjects[0].identity
    label = group.metric.label[0].upper() + group.metric.label[1:]
    says = escape(f"{label} by {evaluator.axis}: {group.title}. {uncertainty(group)}")
    says += rf" \textbf{{{group.reference}}}: {escape(evaluator.mark)}."
    if group.differences:
        says += (
            f" $^{{+}}$ better and $^{{-}}$ worse than {escape(group.baseline or '')} on the same samples, "
            "p corrected for the number of encodings (Holm)."
        )
    return f"{says} Protocol: {escape(protocol)}."


def escape(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(LATEX.get(each, each) for each in text)
