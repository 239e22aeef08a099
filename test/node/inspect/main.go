// Command inspect is what runs in the containers of the node tests: it says what a
// container sees. It is a static program and the only file of its image.
//
// Its arguments are done in order:
//
//	look         print what the container sees, as one line of JSON (a [view.View])
//	read=PATH    have look also read that file
//	try=1:3      have look also make a node for that device, and open it
//	sleep        wait for SIGTERM, then exit with 0; also the image's default, so
//	             that the image serves as the pause image, too
//	serve=ADDR   answer every HTTP request with a fresh view; goes on with the next
//	exit=N       exit with N
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/tangram-dev/tangram/test/node/view"
)

func main() {
	// Before anything else: a container that is told to end while it looks must end.
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	var asked view.Asked
	for _, arg := range os.Args[1:] {
		verb, value, _ := strings.Cut(arg, "=")
		switch verb {
		case "read":
			asked.Files = append(asked.Files, value)
		case "try":
			asked.Tries = append(asked.Tries, value)
		case "look":
			if err := json.NewEncoder(os.Stdout).Encode(view.Take(asked)); err != nil {
				fail(err)
			}
		case "serve":
			listener, err := net.Listen("tcp", value)
			if err != nil {
				fail(err)
			}
			go func() {
				fail(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					_ = json.NewEncoder(w).Encode(view.Take(asked)) // the client went away
				})))
			}()
		case "sleep":
			<-end
			os.Exit(0)
		case "exit":
			code, err := strconv.Atoi(value)
			if err != nil {
				fail(err)
			}
			os.Exit(code)
		default:
			fail(fmt.Errorf("unknown argument %q", arg))
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "inspect:", err)
	os.Exit(64)
}
