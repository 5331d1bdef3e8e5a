"""The path of a release, as far as it goes without a network: workflows, notes, archives, krew."""
