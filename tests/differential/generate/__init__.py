"""Generated clusters and pods: valid API objects, few names, many collisions. All of it follows from one seed."""
