"""How what follows is printed: kernels, entries, modules, pages; the views that templates lay out."""
