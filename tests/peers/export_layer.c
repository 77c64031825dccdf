/* One layer by the C header that `tilus-lab export --qmm` wrote, as functions that ctypes can call: export_check.py multiplies by them.

       cc -std=c99 -O2 -shared -fPIC -D LAYER=linear_NAME [-D ZEROS] [-D BIAS] [-D ORDER] [-D FACTOR] -I DIR -I CUDA/include -o DIR/layer.so tests/peers/export_layer.c -lm

   LAYER is the name of the header in DIR without .h; ZEROS, BIAS, ORDER and FACTOR say what else the layer has. Arguments that are of what it has not
   are without effect. The driver's functions are those of the process, so that nothing of CUDA need be here to link with: libcuda.so.1 must be
   there for all its libraries (RTLD_GLOBAL) before this one is loaded. */
#include <stdlib.h>
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define OF(what) JOIN(LAYER, what)
#include TEXT(LAYER.h)

#ifdef ZEROS
#define IF_ZEROS(...) __VA_ARGS__
#else
#define IF_ZEROS(...)
#endif
#ifdef BIAS
#define IF_BIAS(...) __VA_ARGS__
#else
#define IF_BIAS(...)
#endif
#ifdef ORDER
#define IF_ORDER(...) __VA_ARGS__
#else
#define IF_ORDER(...)
#endif
#ifdef FACTOR
#define IF_FACTOR(...) __VA_ARGS__
#else
#define IF_FACTOR(...)
#endif

/* N, K, the most rows, and bytes: of codes, scales and zero points as they come, of dense codes, and as products read them. */
const int64_t layer_sizes[] = {
	OF(N), OF(K), OF(ROWS), OF(CODES_BYTES), OF(SCALES_BYTES), IF_ZEROS(OF(ZEROS_BYTES)) +0,
	OF(DENSE_BYTES), OF(PACKED_BYTES), OF(ORDERED_SCALES_BYTES), IF_ZEROS(OF(ORDERED_ZEROS_BYTES)) +0,
};

int layer_order(const void *codes, const void *scales, const void *zeros, const void *order, float factor, void *dense, void *ordered_scales, void *ordered_zeros)
{
	(void)zeros, (void)order, (void)factor, (void)ordered_zeros;
	return OF(order)(codes, scales IF_ZEROS(, zeros) IF_ORDER(, order) IF_FACTOR(, factor), dense, ordered_scales IF_ZEROS(, ordered_zeros));
}

int layer_load(void **to, int64_t rows)
{
	OF(t) *k = malloc(sizeof *k);
	CUresult r = k ? OF(load)(k, rows) : (CUresult)2; /* CUDA_ERROR_OUT_OF_MEMORY, which a stand-in for cuda.h may lack */
	if (r != CUDA_SUCCESS) {
		free(k);
		k = 0;
	}
	*to = k;
	return r;
}

int layer_unload(void *k)
{
	CUresult r = OF(unload)(k);
	free(k);
	return r;
}

int layer_pack(void *k, void *stream, uint64_t dense, uint64_t packed) { return OF(pack)(k, stream, dense, packed); }

uint64_t layer_workspace(int64_t rows) { return OF(workspace)(rows); }

int layer_run(void *k, void *stream, uint64_t packed, uint64_t scales, uint64_t zeros, uint64_t bias, uint64_t order, float factor, uint64_t x, uint64_t y, int64_t rows, uint64_t workspace, int dependent)
{
	(void)zeros, (void)bias, (void)order, (void)factor;
	if (k)
		((OF(t) *)k)->dependent = dependent;
	return OF(run)(k, stream, packed, scales IF_ZEROS(, zeros) IF_BIAS(, bias) IF_ORDER(, order) IF_FACTOR(, factor), x, y, rows, workspace);
}
