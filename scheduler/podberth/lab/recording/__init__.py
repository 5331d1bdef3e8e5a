"""The flight recorder: what an engine was given and what it decided, kept in a directory, and decided again.

`log` has the segments and their frames, `entries` what is in them. `recorder` follows a scheduler or a shadow, and
`writer` writes in a thread. `reading` reads it back; `verify` decides again, `world` makes an experiment of it.
"""
