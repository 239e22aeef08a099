// Empty: it lets kubelet.go declare a function without a body.
