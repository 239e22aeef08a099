// Package hami speaks the environment contract of HAMi-core, the library that Project
// HAMi preloads into containers to limit memory and compute by intercepting CUDA calls.
// It is for nodes where that library is installed, and for GPUs without MPS or MIG.
//
// The library must be there (libvgpu.so and ld.so.preload in one folder of the node);
// without it New fails, because a limit that is only a variable limits nothing. What it
// enforces can be evaded by a program that is linked statically or ignores
// /etc/ld.so.preload, and it has broken some frameworks; prefer MPS.
package hami
