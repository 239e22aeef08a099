package model

import (
	"context"   // want: imports "context": not allowed in core/model
	"math/rand" // want: imports "math/rand"
	"os"        // want: imports "os"
	"sync"      // want: imports "sync"
)

// Run starts a goroutine and talks to it.
func Run(ctx context.Context, wg *sync.WaitGroup) {
	done := make(chan int)    // want: channel
	go func() { done <- 1 }() // want: go statement
	os.Exit(rand.Int() + <-done)
}
