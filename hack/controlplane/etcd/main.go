// Command etcd is etcd's own server command: v3.6.8's main module cannot be
// built by version (its go.mod has replace directives), its package can.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
