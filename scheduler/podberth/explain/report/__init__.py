"""Draws tables for a terminal, and pages for a browser, of what `podberth.explain` found."""
