"""The functions that expressions may call, by what they take; `planner` finds the code of a call here."""
