"""The notebooks run from the first cell to the last in a fresh kernel, and are committed without what a run leaves."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="pip install -e '.[notebooks]'")
nbclient = pytest.importorskip("nbclient", reason="pip install -e '.[notebooks]'")

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MACHINE = re.compile(r"(?<![\w.])/(home|Users|root|tmp|work|mnt|opt|var|private)/|[A-Z]:\\\\")


def paths(notebook: Path) -> str:
    return notebook.stem


def written(folder: Path) -> set[tuple[str, int]]:
    """Everything below runs/ and reports/ of the repository, and when it was last written to."""
    found = (path for name in ("runs", "reports", "gallery", "notebooks") for path in (folder / name).rglob("*"))
    return {(str(path), path.stat().st_mtime_ns) for path in found if path.is_file()}


def execute(notebook: Any, folder: Path) -> Any:
    """All cells, in a kernel of its own that starts in `folder`; an error names the cell and has its traceback."""
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    return client.execute()


def leftovers(text: str) -> list[str]:
    """What a notebook should not be committed with."""
    notebook = json.loads(text)
    found = []
    for number, cell in enumerate(notebook["cells"], start=1):
        found += [f"cell {number} has {name}" for name in ("outputs", "execution_count") if cell.get(name)]
        found += [f"cell {number} has metadata"] * bool(cell["metadata"])
    if notebook["metadata"] != {"language_info": {"name": "python"}}:
        found.append(f"metadata of a kernel: {notebook['metadata']}")
    if path := MACHINE.search(text):
        found.append(f"the path of a machine: {path[0]}")
    return found


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=paths)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMPDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):  # where it makes runs of its own; nobody's profile
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    before = written(ROOT)
    executed = execute(nbformat.read(path, as_version=4), tmp_path)
    assert all(cell.execution_count for cell in executed.cells if cell.cell_type == "code")
    assert written(ROOT) == before
    for name in EXPECTED.get(path.stem, ()):
        assert list((tmp_path / "TMPDIR").rglob(name)), f"{path.stem} made no {name}"


# what a notebook leaves in its working folder
EXPECTED = {
    "from_sweep_to_figure": ("figure.pdf", "table.tex", "report.html"),
    "your_own_encoding": ("mine.py", "results.csv", "last.ckpt"),
    "attention_maps": ("last.ckpt",),
}


def test_a_cell_that_fails_is_shown(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell("x = 1"), nbformat.v4.new_code_cell("assert x == 2, 'x is no 2'")]
    with pytest.raises(nbclient.exceptions.CellExecutionError, match=r"(?s)assert x == 2.*AssertionError.*x is no 2"):
        execute(nbformat.v4.new_notebook(cells=cells), tmp_path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=paths)
def test_a_notebook_is_short_and_clean(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert leftovers(text) == []
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    first = notebook.cells[0]
    assert first.cell_type == "markdown" and re.match(r"# .+\n\n.+[.]", first.source, re.DOTALL)
    assert len(notebook.cells) <= 25


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"outputs": [{"output_type": "stream", "name": "stdout", "text": "1"}]}, "cell 1 has outputs"),
        ({"execution_count": 3}, "cell 1 has execution_count"),
        ({"metadata": {"scrolled": True}}, "cell 1 has metadata"),
        ({"source": "open('/home/somebody/runs')"}, "the path of a machine: /home/"),
    ],
)
def test_the_test_of_leftovers_can_fail(change: dict[str, Any], complaint: str) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": "1"} | change
    clean = {"cells": [cell], "metadata": {"language_info": {"name": "python"}}}
    assert leftovers(json.dumps(clean)) == [complaint]
    spec = {"kernelspec": {"name": "my-kernel"}}
    assert any("kernel" in each for each in leftovers(json.dumps(clean | {"metadata": spec})))
