"""The kernels of operations of steps: phases in, typed nodes of C, modules and prose out."""
