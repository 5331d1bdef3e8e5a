"""The operator: writes into each MetadataPolicy's status what it does, what is wrong with it, and what it would hit.

The way of a change: kopf calls one of the `handlers`, `reconcile` reads the namespace's policies from the index,
`enforcement` has the API server enforce them, `judge` computes their conditions, `status` says what has to be written,
and which Events. `audit` counts existing objects, `probe` answers kubelets. The replica that holds the Lease writes.
"""

import sys

# kopf imports the official client wherever it is, to know its objects and logins. The operator has neither, and the
# import takes 18 MB and half a second; `kube.credential_plugins` may import it later.
if "kubernetes" not in sys.modules and "kopf" not in sys.modules:
    sys.modules["kubernetes"] = None  # type: ignore[assignment]
    import kopf

    kopf.get_default_registry()
    del sys.modules["kubernetes"]
