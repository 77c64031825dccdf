/* Brings weights of files into order by the header of a layer, and writes them to standard output, or that they are refused. glue.h, which
   the test writes, names the header and types. Argument: the factor. */
#include <stdio.h>
#include <stdlib.h>
#include "glue.h"

static void *read_file(const char *name, size_t bytes)
{
	FILE *f = fopen(name, "rb");
	void *data = malloc(bytes);
	if (!f || !data || fread(data, 1, bytes, f) != bytes || fgetc(f) != EOF)
		exit(2);
	fclose(f);
	return data;
}

int main(int n, char **args)
{
	const uint8_t *codes = (const uint8_t *)read_file("codes", linear_of_CODES_BYTES);
	const scale_t *scales = (const scale_t *)read_file("scales", linear_of_SCALES_BYTES);
	uint8_t *dense = (uint8_t *)malloc(linear_of_DENSE_BYTES);
	scale_t *ordered_scales = (scale_t *)malloc(linear_of_ORDERED_SCALES_BYTES);
#ifdef HAS_ZEROS
	const uint16_t *zeros = (const uint16_t *)read_file("zeros", linear_of_ZEROS_BYTES);
	zero_t *ordered_zeros = (zero_t *)malloc(linear_of_ORDERED_ZEROS_BYTES);
#define ZEROS_IN , zeros
#define ZEROS_OUT , ordered_zeros
#else
#define ZEROS_IN
#define ZEROS_OUT
#endif
#ifdef HAS_ORDER
	const int32_t *order = (const int32_t *)read_file("order", linear_of_K * sizeof *order);
#define ORDER , order
#else
#define ORDER
#endif
#ifdef HAS_FACTOR
#define FACTOR , (float)atof(args[1])
#else
#define FACTOR
#endif
	if (n != 2 || !args[1] || linear_of_order(0, scales ZEROS_IN ORDER FACTOR, dense, ordered_scales ZEROS_OUT) != CUDA_ERROR_INVALID_VALUE)
		return 3;
	if (linear_of_order(codes, scales ZEROS_IN ORDER FACTOR, dense, ordered_scales ZEROS_OUT) != CUDA_SUCCESS)
		return printf("refused") != 7;
	fwrite(dense, 1, linear_of_DENSE_BYTES, stdout);
	fwrite(ordered_scales, 1, linear_of_ORDERED_SCALES_BYTES, stdout);
#ifdef HAS_ZEROS
	fwrite(ordered_zeros, 1, linear_of_ORDERED_ZEROS_BYTES, stdout);
#endif
	return 0;
}
