"""All tests in parts that run at the same time: what `make test` and CI run."""
