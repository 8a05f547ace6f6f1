"""Where generated text comes from: which fields were read, which functions and template lines made it."""
