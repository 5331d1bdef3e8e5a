"""CEL, the language of device selectors, with the environment that Kubernetes gives it: see `program`."""
