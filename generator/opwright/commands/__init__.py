"""What each command of `opwright` does: one module a command, which declares its own arguments.

A module has EXAMPLE, a commented example; `arguments`, which declares what the command takes; and `run`, which does the
work and returns the exit code. It is imported when its command is asked for.
"""

SUMMARIES = {
    "generate": "Write the generated package from the specs.",
    "schema": "Print the JSON Schema of the spec language, for editors.",
    "gradient": "Derive the gradient of an operation from its semantics, as a spec.",
    "audit": "Compare published pages of operations with their specs, field by field.",
    "build": "Compile the kernels of the generated package into the user's cache, ahead of their first use.",
    "list": "List the operations, their kernels, and how much C these are.",
    "why": "Tell what a generated file or line comes from: specs, templates, functions of the generator, and commits.",
    "explain": "Tell what a call would do: sizes, padding, kernel, and the line of the spec behind each.",
    "run": "Execute a oneDNN graph dump of one operation and check the result.",
    "export": "Copy the generated package into another project.",
    "wheel": "Make a wheel of the generated package that needs no compiler: with kernels of every instruction set.",
    "diff": "Review a change of the specs: what it means to callers, and which kernels it moves.",
    "bench": "Time the kernels beside PyTorch and oneDNN, each result checked first.",
    "demo": "Upsample a photograph and execute a graph dump, each checked against a witness.",
}
