"""The commands of `opwright`: one module per command, which declares its own arguments.

A module has EXAMPLE, a commented example; `arguments`, which declares the command's arguments; and `run`, which does
the work and returns the exit code. It is imported when its command is requested.
"""

SUMMARIES = {
    "generate": "Write the generated package from the specs.",
    "schema": "Print the JSON Schema of the spec language, for editors.",
    "gradient": "Derive the gradient of an operation from its semantics, as a spec.",
    "audit": "Compare published pages of operations with their specs, field by field.",
    "build": "Compile the kernels of the generated package into the user's cache, ahead of their first use.",
    "list": "List the operations, their kernels, and how much C these are.",
    "why": "Show the origin of a generated file or line: specs, templates, functions of the generator, and commits.",
    "explain": "Show what a call would do: sizes, padding, kernel, and the line of the spec behind each.",
    "run": "Execute a oneDNN graph dump of one operation and check the result.",
    "export": "Copy the generated package into another project.",
    "wheel": "Make a wheel of the generated package that needs no compiler, with kernels of every instruction set.",
    "diff": "Review a change of the specs: what it means to callers, and which kernels it changes.",
    "bench": "Benchmark the kernels against PyTorch and oneDNN, after checking each result.",
    "demo": "Upsample a photograph and execute a graph dump, each checked against a witness.",
}
