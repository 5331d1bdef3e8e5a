"""One file per kube-scheduler plugin. Next stage: `scheduler.engine` runs them through `scheduler.framework`."""
