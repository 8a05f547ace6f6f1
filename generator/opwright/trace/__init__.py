"""The origin of generated text: the fields that were read, and the functions and template lines that produced it."""
