"""MetadataPolicies as the API server's own admission policies, in CEL, so that no webhook is asked.

`compile` writes a namespace's policies as a MutatingAdmissionPolicy and ValidatingAdmissionPolicies with their
bindings; `budget` says which policies cost too much for that. Everything here is pure text: `expressions` has
the pieces, `requests` which requests are judged at all, `pod_class` the QoS class of a pod.
API: k8s.io/api/admissionregistration/v1 types.go; what CEL offers there: k8s.io/apiserver/pkg/cel/environment/base.go.
"""
