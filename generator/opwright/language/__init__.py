"""The spec language: text, expressions, model, and facts that hold before anything is derived."""
