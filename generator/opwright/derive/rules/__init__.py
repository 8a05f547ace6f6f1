"""What a spec must hold for its kernels to be derived: each rule gives problems, with their places."""
