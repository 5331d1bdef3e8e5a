"""The scheduler without its I/O: stimuli in, instructions out, the clock handed in.

Next stage: `podberth.app` feeds it from watches and carries its instructions out.
"""
