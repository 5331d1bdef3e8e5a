"""What a person reads: tables for a terminal, pages for a browser. Draws what `podberth.explain` found."""
