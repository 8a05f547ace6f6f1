"""Reviews an edit: changes the default of one attribute in a copy of the specs."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SPECS = Path(__file__).parents[1] / "spec" / "onednn_graph"

with tempfile.TemporaryDirectory() as folder:
    before, after = (Path(folder) / name for name in ("before", "after"))
    for copy in (before, after):
        shutil.copytree(SPECS, copy)
    shared = after / "_common.yaml"
    text = shared.read_text(encoding="utf-8")
    assert text.count("default: NXC") == 1
    shared.write_text(text.replace("default: NXC", "default: NCX"), encoding="utf-8")

    review = [sys.executable, "-m", "opwright", "diff", str(before), str(after), "--no-run"]
    answer = subprocess.run(review, capture_output=True, text=True, check=False)
    print(answer.stdout)
    assert answer.returncode == 1, "a changed default breaks callers that rely on it"
