"""A compiler, `gcc` but for AVX-512, which it emulates: what is meant for it is compiled for AVX2, by emulated_avx512.h."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HEADER = Path(__file__).with_name("emulated_avx512.h")
# Emulated vectors take gcc twice as long with -O3 as with -Og.
FLAGS = {
    "-O3": "-Og",
    "-march=x86-64-v4": "-march=x86-64-v3",
    "-mprefer-vector-width=512": "",
    "-mavx512vnni": "-D__AVX512VNNI__=1",
}


def command(arguments: list[str]) -> list[str]:
    emulates = ["-include", str(HEADER), "-Wno-psabi"] if "-march=x86-64-v4" in arguments else []
    return ["gcc", *filter(None, (FLAGS.get(word, word) for word in arguments)), *emulates]


if __name__ == "__main__":
    os.execvp("gcc", command(sys.argv[1:]))
