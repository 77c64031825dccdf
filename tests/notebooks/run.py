"""Runs a notebook from top to bottom through Jupyter and writes what came out.

    python run.py NOTEBOOK OUT

The kernel is the one that the notebook names; cells run in the notebook's folder. A cell that fails ends the run with its
traceback and exit status 1.
"""

import pathlib
import sys

import nbclient
import nbformat


def main():
    source, out = map(pathlib.Path, sys.argv[1:])
    nb = nbformat.read(source, as_version=4)
    nbformat.validate(nb)
    client = nbclient.NotebookClient(nb, timeout=600, startup_timeout=300, record_timing=False, resources={"metadata": {"path": str(source.parent)}})
    try:
        client.execute()
    except nbclient.exceptions.CellExecutionError as e:
        sys.exit(str(e))
    nbformat.validate(nb)
    nbformat.write(nb, out)


main()
