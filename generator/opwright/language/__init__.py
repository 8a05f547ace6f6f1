"""What a spec says: its text, its expressions, its model, and what holds of it before anything is derived."""
