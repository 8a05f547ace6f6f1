"""Generates a package from batched_product.yaml in a temporary folder and checks a result against NumPy."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent

with tempfile.TemporaryDirectory() as folder:
    specs = Path(folder) / "specs"
    specs.mkdir()
    shutil.copy(HERE / "batched_product.yaml", specs)
    command = ["generate", "--spec", str(specs), "--output", str(Path(folder) / "products")]
    subprocess.run([sys.executable, "-m", "opwright", *command], check=True)

    sys.path.insert(0, folder)
    import products

    a, b = (np.random.default_rng(n).integers(-4, 5, (3, 5, 5)).astype(np.float32) for n in (0, 1))
    assert np.array_equal(products.batched_product(a, b), a @ b)
    print("batched_product agrees with NumPy on", a.shape)
