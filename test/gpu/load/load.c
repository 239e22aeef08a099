/* load works on one GPU, or on the share of one that it is given, and says what it could
 * use: how many SMs it sees, how much arithmetic it gets done, whether an allocation
 * succeeds. It needs nothing but the driver: libcuda is opened at run time, and the
 * kernels are PTX text that the driver compiles.
 *
 *	cc -O2 -o load load.c -ldl
 *	load [-seconds 2] [-allocate-mib 0] [-out FILE] [-fault none|address|misaligned|trap]
 *
 * It works for -seconds (0: one kernel), after it has allocated -allocate-mib and written
 * to all of it. It writes one JSON object to -out, or to standard output, and "ready" to
 * standard error as soon as its first kernel has run. With -fault the kernel writes to an
 * address that is not mapped (XID 31) or is no multiple of four (XID 13), or executes a trap
 * instruction (XID 43), and the error is what is wanted.
 *
 * Exit status: 0 when the kernels ran (also when the allocation was refused: "allocated"
 * says so), 1 when not. With -fault 0 when the kernel failed.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What is used of the driver API, from its documentation. */
typedef int CUresult;
typedef int CUdevice;
typedef void *CUcontext, *CUmodule, *CUfunction;
typedef unsigned long long CUdeviceptr;
enum { MULTIPROCESSOR_COUNT = 16, MAX_THREADS_PER_MULTIPROCESSOR = 39 };

static CUresult (*cuInit)(unsigned);
static CUresult (*cuDriverGetVersion)(int *);
static CUresult (*cuDeviceGetCount)(int *);
static CUresult (*cuDeviceGet)(CUdevice *, int);
static CUresult (*cuDeviceGetName)(char *, int, CUdevice);
static CUresult (*cuDeviceGetUuid)(unsigned char *, CUdevice);
static CUresult (*cuDeviceTotalMem)(size_t *, CUdevice);
static CUresult (*cuDeviceGetAttribute)(int *, int, CUdevice);
static CUresult (*cuCtxCreate)(CUcontext *, unsigned, CUdevice);
static CUresult (*cuCtxSynchronize)(void);
static CUresult (*cuMemAlloc)(CUdeviceptr *, size_t);
static CUresult (*cuMemsetD8)(CUdeviceptr, unsigned char, size_t);
static CUresult (*cuModuleLoadData)(CUmodule *, const void *);
static CUresult (*cuModuleGetFunction)(CUfunction *, CUmodule, const char *);
static CUresult (*cuLaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static CUresult (*cuGetErrorName)(CUresult, const char **);

static const struct {
	void *into;
	const char *name;
} functions[] = {
	{&cuInit, "cuInit"},
	{&cuDriverGetVersion, "cuDriverGetVersion"},
	{&cuDeviceGetCount, "cuDeviceGetCount"},
	{&cuDeviceGet, "cuDeviceGet"},
	{&cuDeviceGetName, "cuDeviceGetName"},
	{&cuDeviceGetUuid, "cuDeviceGetUuid_v2"},
	{&cuDeviceTotalMem, "cuDeviceTotalMem_v2"},
	{&cuDeviceGetAttribute, "cuDeviceGetAttribute"},
	{&cuCtxCreate, "cuCtxCreate_v2"},
	{&cuCtxSynchronize, "cuCtxSynchronize"},
	{&cuMemAlloc, "cuMemAlloc_v2"},
	{&cuMemsetD8, "cuMemsetD8_v2"},
	{&cuModuleLoadData, "cuModuleLoadData"},
	{&cuModuleGetFunction, "cuModuleGetFunction"},
	{&cuLaunchKernel, "cuLaunchKernel"},
	{&cuGetErrorName, "cuGetErrorName"},
};

/* multiply is the inner product of a matrix multiplication without its loads: eight sums
 * that do not wait for each other, 64 fused multiply-adds a round, so that only the
 * arithmetic units limit it. The others are what is wrong with
 * programs. */
#define FMA8 \
	"fma.rn.f32 %s0, %s0, %a, %b; fma.rn.f32 %s1, %s1, %a, %b;\n" \
	"fma.rn.f32 %s2, %s2, %a, %b; fma.rn.f32 %s3, %s3, %a, %b;\n" \
	"fma.rn.f32 %s4, %s4, %a, %b; fma.rn.f32 %s5, %s5, %a, %b;\n" \
	"fma.rn.f32 %s6, %s6, %a, %b; fma.rn.f32 %s7, %s7, %a, %b;\n"
#define FMA64 FMA8 FMA8 FMA8 FMA8 FMA8 FMA8 FMA8 FMA8
enum { FLOPS_PER_ROUND = 64 * 2, THREADS = 256 };

static const char *ptx =
	".version 6.3\n.target sm_75\n.address_size 64\n"
	".visible .entry multiply(.param .u64 out, .param .u32 rounds) {\n"
	".reg .f32 %s<8>; .reg .f32 %a; .reg .f32 %b; .reg .u32 %n; .reg .u32 %i; .reg .u32 %t;\n"
	".reg .u32 %c; .reg .u32 %d; .reg .u64 %p; .reg .u64 %o; .reg .pred %q;\n"
	"ld.param.u64 %p, [out]; ld.param.u32 %n, [rounds];\n"
	"mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %t, %c, %d, %t;\n"
	"cvt.rn.f32.u32 %s0, %t; mov.f32 %s1, %s0; mov.f32 %s2, %s0; mov.f32 %s3, %s0;\n"
	"mov.f32 %s4, %s0; mov.f32 %s5, %s0; mov.f32 %s6, %s0; mov.f32 %s7, %s0;\n"
	"mov.f32 %a, 0f3F7FFFFE; mov.f32 %b, 0f3A83126F; mov.u32 %i, 0;\n"
	"again:\n" FMA64
	"add.u32 %i, %i, 1; setp.lt.u32 %q, %i, %n; @%q bra again;\n"
	"add.f32 %s0, %s0, %s1; add.f32 %s2, %s2, %s3; add.f32 %s4, %s4, %s5; add.f32 %s6, %s6, %s7;\n"
	"add.f32 %s0, %s0, %s2; add.f32 %s4, %s4, %s6; add.f32 %s0, %s0, %s4;\n"
	"mul.wide.u32 %o, %t, 4; add.u64 %p, %p, %o; st.global.f32 [%p], %s0;\n"
	"ret;\n}\n"
	".visible .entry misaligned(.param .u64 out, .param .u32 rounds) {\n"
	".reg .u64 %p; ld.param.u64 %p, [out]; add.u64 %p, %p, 1; st.global.u32 [%p], 1; ret;\n}\n"
	".visible .entry address(.param .u64 out, .param .u32 rounds) {\n"
	".reg .u64 %p; mov.u64 %p, 0x70000000000; st.global.u32 [%p], 1; ret;\n}\n"
	".visible .entry trapped(.param .u64 out, .param .u32 rounds) {\ntrap; ret;\n}\n";

/* report collects the JSON object. */
static char report[8192];
static const char *out;

static void say(const char *format, ...) {
	size_t used = strlen(report);
	va_list list;
	va_start(list, format);
	vsnprintf(report + used, sizeof report - used, format, list);
	va_end(list);
}

static void finish(int status) {
	FILE *f = out ? fopen(out, "w") : stdout;
	if (!f) {
		perror(out);
		exit(1);
	}
	fprintf(f, "{%s\"pid\": %d}\n", report, (int)getpid());
	fclose(f);
	_exit(status); /* the driver's clean-up after a fault is not waited for */
}

static const char *named(CUresult r) {
	const char *name = "unknown";
	cuGetErrorName(r, &name);
	return name;
}

static void must(CUresult r, const char *what) {
	if (r) {
		say("\"error\": \"%s: %s\", ", what, named(r));
		finish(1);
	}
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
	double start = now(), seconds = 2;
	size_t allocate = 0;
	const char *fault = "none";
	for (int i = 1; i < argc; i += 2) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (!value) goto usage;
		if (!strcmp(argv[i], "-seconds")) seconds = atof(value);
		else if (!strcmp(argv[i], "-allocate-mib")) allocate = strtoull(value, NULL, 10);
		else if (!strcmp(argv[i], "-out")) out = value;
		else if (!strcmp(argv[i], "-fault")) fault = value;
		else goto usage;
	}
	static const char *const kernels_of[][2] = {
		{"none", "multiply"}, {"address", "address"}, {"misaligned", "misaligned"}, {"trap", "trapped"}};
	const char *kernel = NULL;
	for (size_t i = 0; i < sizeof kernels_of / sizeof kernels_of[0]; i++)
		if (!strcmp(fault, kernels_of[i][0])) kernel = kernels_of[i][1];
	if (!kernel) {
	usage:
		fprintf(stderr, "usage: load [-seconds S] [-allocate-mib N] [-out FILE] [-fault none|address|misaligned|trap]\n");
		return 2;
	}

	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		void *function = dlsym(library, functions[i].name);
		if (!function) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		memcpy(functions[i].into, &function, sizeof function);
	}

	must(cuInit(0), "cuInit");
	int version = 0, devices = 0, sms = 0, threads = 0;
	cuDriverGetVersion(&version);
	must(cuDeviceGetCount(&devices), "cuDeviceGetCount");
	say("\"cuda\": \"%d.%d\", \"devices\": %d, ", version / 1000, version % 1000 / 10, devices);
	CUdevice device;
	must(cuDeviceGet(&device, 0), "cuDeviceGet");
	char name[128] = "";
	unsigned char uuid[16] = {0};
	size_t memory = 0;
	cuDeviceGetName(name, sizeof name, device);
	cuDeviceGetUuid(uuid, device);
	cuDeviceTotalMem(&memory, device);
	must(cuDeviceGetAttribute(&sms, MULTIPROCESSOR_COUNT, device), "cuDeviceGetAttribute");
	must(cuDeviceGetAttribute(&threads, MAX_THREADS_PER_MULTIPROCESSOR, device), "cuDeviceGetAttribute");
	CUcontext context;
	must(cuCtxCreate(&context, 0, device), "cuCtxCreate");
	/* With MPS the number of SMs is limited with the context. */
	must(cuDeviceGetAttribute(&sms, MULTIPROCESSOR_COUNT, device), "cuDeviceGetAttribute");
	say("\"name\": \"%s\", \"uuid\": \"", name);
	for (int i = 0; i < 16; i++) say("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	say("\", \"sms\": %d, \"memoryMiB\": %zu, \"contextSeconds\": %.4f, ", sms, memory >> 20, now() - start);

	if (allocate) {
		CUdeviceptr p = 0;
		CUresult r = cuMemAlloc(&p, allocate << 20);
		if (!r) r = cuMemsetD8(p, 1, allocate << 20);
		if (!r) r = cuCtxSynchronize();
		say("\"allocateMiB\": %zu, \"allocated\": %s, ", allocate, r ? "false" : "true");
		if (r) say("\"allocateError\": \"%s\", ", named(r));
	}

	CUmodule module;
	CUfunction function;
	must(cuModuleLoadData(&module, ptx), "cuModuleLoadData");
	must(cuModuleGetFunction(&function, module, kernel), "cuModuleGetFunction");
	unsigned blocks = (unsigned)sms * (threads / THREADS), rounds = 4096;
	CUdeviceptr sums = 0;
	must(cuMemAlloc(&sums, (size_t)blocks * THREADS * 4), "cuMemAlloc");
	void *arguments[] = {&sums, &rounds};

	CUresult r = cuLaunchKernel(function, strcmp(fault, "none") ? 1 : blocks, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL);
	if (!r) r = cuCtxSynchronize();
	double first = now();
	say("\"firstKernel\": %.6f, \"start\": %.6f, ", first, start);
	if (strcmp(fault, "none")) {
		say("\"error\": \"%s\", ", named(r));
		finish(r ? 0 : 1);
	}
	must(r, "kernel");
	fprintf(stderr, "ready\n");

	double end = first;
	unsigned long kernels = 0;
	while (end - first < seconds) {
		for (int i = 0; i < 4; i++) must(cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL), "cuLaunchKernel");
		must(cuCtxSynchronize(), "kernel");
		kernels += 4;
		end = now();
	}
	double flops = (double)kernels * blocks * THREADS * rounds * FLOPS_PER_ROUND;
	say("\"kernels\": %lu, \"seconds\": %.4f, \"tflops\": %.3f, ", kernels, end - first, kernels ? flops / (end - first) / 1e12 : 0);
	finish(0);
}
