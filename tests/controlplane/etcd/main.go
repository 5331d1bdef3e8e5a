// Command etcd is etcd as released; it has no main package inside a module of its own that could be pinned.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
