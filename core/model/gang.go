package model

// GangID names a gang: pods that start together. A single pod is a gang of one.
type GangID string

// Shape is equal for members that are alike in all that decides where they may run:
// what they ask for, and everything Kubernetes' own rules look at, their namespace
// included. Members of one shape are parsed once, refused once and planned once.
type Shape string

// GangShape is equal for gangs that fit alike, whatever their owners and times.
type GangShape string
