"""What must hold of a spec, beyond the shapes that its text may take: rules, by what they look at, in stages."""
