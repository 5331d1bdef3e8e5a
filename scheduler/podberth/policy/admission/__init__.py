"""The admission server, `berth admission`: answers admission reviews with the pure evaluator.

The way of a review: `server` reads it, `review` has the wire format, `reviewer` asks `podberth.policy.evaluate` about
the policies in `cache` (`group`: those of one namespace). What takes milliseconds waits for its `turns`. Around it:
`certificates` for HTTPS, `registration` for the webhook configurations. `replica` puts it together.
"""
