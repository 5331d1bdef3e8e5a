"""The admission server, `berth admission`: reviews in, verdicts of the pure evaluator out.

The story of a review: `server` reads it, `review` decodes it, `desk` asks `scheduler.policy.evaluate` about the
policies that `cache` follows (and `owners` about selectors), `review` writes the answer. Around it: `certificates`,
`secret`, `mounted` and `tls` for HTTPS, `registration` for the webhook configurations, `launch` to start all of it.
"""
