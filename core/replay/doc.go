// Package replay writes down what an engine is told and decides, and does it again. A
// recording is lines of JSON: a header, then an entry for each call of the engine, with the
// answers of Facts that were asked for during it and have changed. Played on the same code it
// gives the same decisions; on other code it says where they differ.
//
// The recorder keeps the last lines in memory, up to a number of bytes, and passes every line
// on where a sink is given. What is kept must begin with an engine that knows nothing, or it
// cannot be played: so from time to time, when no pod is on its way, the recorder writes down
// a checkpoint, the events that bring a new engine to where this one is, and drops what was
// before the last one.
//
// Read entry.go (the lines), kinds.go (one row per kind of event), facts.go, recorder.go
// (writing) and play.go (reading).
package replay
