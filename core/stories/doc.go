// Package stories tests core's engine as text: files of events with the plans and reasons
// that follow (testdata, in the form of github.com/cockroachdb/datadriven). Every rule of
// docs/concepts (rules.txt) has one; a comment before each part of a file names the rules that it
// shows. The verbs are described at their functions: verbs_test.go has the table of them.
//
//	go test ./core/stories            compares
//	go test ./core/stories -rewrite   writes what comes out; read it before you commit it
package stories
