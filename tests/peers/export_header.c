/* Multiplies by a header that `tilus-lab export matmul_hopper_v5` wrote, on the GPU and without Go, by tensor maps that the header makes:

       tilus-lab export matmul_hopper_v5 -o build
       cc -std=c99 -I build -I CUDA/include -o header tests/peers/export_header.c -lcuda

   Products of whole numbers are held to sums of whole numbers; a line says how many of them are others. */
#include <stdio.h>
#include <stdlib.h>
#include "matmul_hopper_v5.h"

#define CHECK(what) \
	do { \
		CUresult code = (what); \
		if (code != CUDA_SUCCESS) { \
			fprintf(stderr, "%s: error %d\n", #what, (int)code); \
			return 1; \
		} \
	} while (0)

enum { M = 300, N = 520, K = 576 };

/* f16 of a whole number up to 2048. */
static unsigned short encode(int v)
{
	unsigned short sign = v < 0 ? 0x8000 : 0;
	int e = 0, a = abs(v);
	if (a == 0)
		return 0;
	while (a >> (e + 1))
		e++;
	return sign | (e + 15) << 10 | ((a << 10 >> e) & 1023);
}

static int value(unsigned i) { return (int)(i * 2654435761u >> 20) % 3 - 1; }

int main(void)
{
	static unsigned short a[M * K], b[N * K], c[M * N];
	for (unsigned i = 0; i < M * K; i++)
		a[i] = encode(value(i));
	for (unsigned i = 0; i < N * K; i++)
		b[i] = encode(value(i + 77));
	CUdevice device;
	CUcontext context;
	CUdeviceptr da, db, dc;
	matmul_hopper_v5_t k;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&da, sizeof a));
	CHECK(cuMemAlloc(&db, sizeof b));
	CHECK(cuMemAlloc(&dc, sizeof c));
	CHECK(cuMemcpyHtoD(da, a, sizeof a));
	CHECK(cuMemcpyHtoD(db, b, sizeof b));
	CHECK(matmul_hopper_v5_load(&k));
	int wrong = 0;
	CHECK(cuMemsetD8(dc, 255, sizeof c));
	CHECK(matmul_hopper_v5_launch(&k, 0, da, db, dc, M, N, K, 16));
	CHECK(cuMemcpyDtoH(c, dc, sizeof c));
	for (int m = 0; m < M; m++)
		for (int n = 0; n < N; n++) {
			int sum = 0;
			for (int i = 0; i < K; i++)
				sum += value(m * K + i) * value(n * K + i + 77);
			wrong += c[m * N + n] != encode(sum);
		}
	printf("%d of %d differ\n", wrong, M * N);
	return wrong > 0;
}
