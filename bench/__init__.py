"""The side-by-side benchmark: our kernels, PyTorch and oneDNN on the same plain tensors.

`shapes` and `rows` say what is measured, `candidate` and the modules named in it how each candidate is called, `worker`
and `process` how they are kept apart, `measure` how one row is timed, `results` what is kept and what it must reach,
`report` what is shown. `command` is what `opwright bench` calls.
"""
