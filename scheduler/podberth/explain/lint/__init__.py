"""Finds what is wrong with a configuration that is valid: settings that do nothing, or not what they seem to ask for.

`checks` asks every check; `packing` tries profiles on two nodes with the engine itself.
"""
