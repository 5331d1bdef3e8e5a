"""The flight recorder: what an engine was given and what it decided, kept in a directory, and decided again.

`log` has the segments and their frames, `entries` what is in them, `recorder` writes beside a scheduler or a shadow,
`reading` reads it back, `verify` decides again, `difference` decides by another configuration.
"""
