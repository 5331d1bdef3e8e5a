"""Berth beside Kueue, Karpenter and the descheduler themselves, built from their Go modules: `make beside`."""
