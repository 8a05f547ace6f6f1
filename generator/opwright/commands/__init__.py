"""What each command of `opwright` does, one module a command, and what several of them share."""
