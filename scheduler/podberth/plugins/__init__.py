"""One file per kube-scheduler plugin. Next stage: `podberth.engine` runs them through `podberth.framework`."""
