"""Finds what is wrong with a configuration that is valid: settings that do nothing, or not what they seem to ask for.

Next stage: `checks` asks every check; `scenes` tries profiles on two nodes with the engine itself.
"""
