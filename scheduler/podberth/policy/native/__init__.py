"""MetadataPolicies enforced by the API server's own admission policies, in CEL, so that no webhook is asked.

`policy_set` writes a namespace's policies as data; `admission_policies` writes the objects of a release that read it.
Everything here is pure text: `requests` says which requests are judged at all, `pod_class` the QoS class of a pod.
API: k8s.io/api/admissionregistration/v1 types.go; what CEL offers there: k8s.io/apiserver/pkg/cel/environment/base.go.
"""
