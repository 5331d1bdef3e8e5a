"""Says what the API server would refuse of an object, before it is used: `judge` does, field by field.

Types, unknown fields and enums come from `schemas.json`, which `make schemas` writes from the OpenAPI documents of the
supported versions. The rules in `judge` say what those documents can't.
"""
