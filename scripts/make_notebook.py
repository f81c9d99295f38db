"""Makes docs/tour.ipynb: python/examples/tour.py as a notebook, executed from its first cell to its last.

    pip install pysiskin[plot] nbformat nbclient ipykernel     # pysiskin from a wheel: .ci/python makes one
    python scripts/make_notebook.py

Cells are split at "# %%"; "# %% [markdown]" cells are text. A cell that fails ends the script, and nothing is written.
"""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent


def cells(source: str):
    """The cells of a script."""
    for number, part in enumerate(source.split("# %%")[1:]):
        kind, _, body = part.partition("\n")
        if kind.strip() == "[markdown]":
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()]
            cell = nbformat.v4.new_markdown_cell("\n".join(lines))
        else:
            cell = nbformat.v4.new_code_cell(body.strip())
        # Random by default; the same script shall give the same file.
        cell["id"] = f"cell-{number}"
        yield cell


def main() -> None:
    notebook = nbformat.v4.new_notebook(cells=list(cells((ROOT / "python/examples/tour.py").read_text())))
    notebook["metadata"]["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute(cwd="/")
    for cell in notebook["cells"]:
        # When a cell ran is nobody's concern.
        cell["metadata"].pop("execution", None)
    nbformat.write(notebook, ROOT / "docs/tour.ipynb")
    print("Written: docs/tour.ipynb")


main()
