// Package web is the web page: what the scheduler answers (api/query), shown to people.
//
// The page is HTML, CSS and ES modules in assets, embedded as they are: there is no build
// step, and nothing is loaded from elsewhere. It has no logic of its own beyond showing; it
// asks /query/ of the host that serves it.
//
// Handler serves the assets and passes /query/ to a handler of the caller's. gpu-controller
// gives it a Leader, which passes questions on to the scheduler that leads with the
// visitor's own bearer token; `tangram web` gives it the proxy of internal/ask, which uses
// the kubeconfig's credentials.
//
// Read handler.go, then leader.go; of the assets app.js, then a view.
package web
