"""The admission server, `berth admission`: answers admission reviews with the pure evaluator.

The way of a review: `server` reads it, `reviewer` finds out whether it is cheap, `judging` asks
`podberth.policy.evaluate` about the policies in `cache`, here or (`aside`) in a `worker`, and `owners` about
selectors. `review` has the wire format. `lanes` divides what is scarce among namespaces. Around it: `certificates`,
`secret`, `mounted` and `tls` for HTTPS, `registration` for the webhook configurations. `replica` puts it together.
"""
