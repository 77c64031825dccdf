package dtype

// The element types. The zero Type is none of them.
const (
	invalid Type = iota
	U1
	U2
	U3
	U4
	U5
	U6
	U7
	U8
	I1
	I2
	I3
	I4
	I5
	I6
	I7
	I8
	I16
	I32
	I64
	U16
	U32
	U64
	Bool
	F16
	BF16
	TF32
	F32
	F64
	F3E1M1
	F3E2M0
	F4E1M2
	F4E2M1
	F4E3M0
	F5E1M3
	F5E2M2
	F5E3M1
	F5E4M0
	F6E1M4
	F6E2M3
	F6E3M2
	F6E4M1
	F6E5M0
	F7E1M5
	F7E2M4
	F7E3M3
	F7E4M2
	F7E5M1
	F7E6M0
	F8E1M6
	F8E2M5
	F8E3M4
	F8E4M3
	F8E5M2
	F8E6M1
	F8E7M0
	F8E8M0
)

// Documents that the rows cite.
const (
	twosComplement = "two's complement; NVIDIA PTX ISA 8.7, 5.2 Types"
	boolByte       = "one byte holding 0 or 1; ISO C 6.2.5 _Bool, numpy |b1"
	ieee754        = "IEEE 754-2019, 3.6 Interchange format parameters"
	ptxTypes       = "NVIDIA PTX ISA 8.7, 5.2.3 Alternate Floating-Point Data Formats"
	ocpFP8         = "OCP 8-bit Floating Point Specification (OFP8) 1.0, 4"
	ocpMX          = "OCP Microscaling Formats (MX) 1.0, 5.3 and 5.4"
	tilusFloats    = "NVIDIA/tilus 9a22de0a, hidet/ir/dtypes (floats below 8 bits)"
	anySplit       = "sign, exponent, mantissa with bias 2^(e-1)-1 and every code finite; Tilus paper, arbitrary-precision floats"
)

// table is the whole truth about element types; the rest of the package is
// derived from it.
var table = [...]Row{
	U1:     {Name: "u1", Kind: Uint, Bits: 1, PTX: "b1", Source: twosComplement},
	U2:     {Name: "u2", Kind: Uint, Bits: 2, Source: twosComplement},
	U3:     {Name: "u3", Kind: Uint, Bits: 3, Source: twosComplement},
	U4:     {Name: "u4", Kind: Uint, Bits: 4, PTX: "u4", Source: twosComplement},
	U5:     {Name: "u5", Kind: Uint, Bits: 5, Source: twosComplement},
	U6:     {Name: "u6", Kind: Uint, Bits: 6, Source: twosComplement},
	U7:     {Name: "u7", Kind: Uint, Bits: 7, Source: twosComplement},
	U8:     {Name: "u8", Kind: Uint, Bits: 8, PTX: "u8", C: "uint8_t", Source: twosComplement},
	I1:     {Name: "i1", Kind: Int, Bits: 1, Source: twosComplement},
	I2:     {Name: "i2", Kind: Int, Bits: 2, Source: twosComplement},
	I3:     {Name: "i3", Kind: Int, Bits: 3, Source: twosComplement},
	I4:     {Name: "i4", Kind: Int, Bits: 4, PTX: "s4", Source: twosComplement},
	I5:     {Name: "i5", Kind: Int, Bits: 5, Source: twosComplement},
	I6:     {Name: "i6", Kind: Int, Bits: 6, Source: twosComplement},
	I7:     {Name: "i7", Kind: Int, Bits: 7, Source: twosComplement},
	I8:     {Name: "i8", Kind: Int, Bits: 8, PTX: "s8", C: "int8_t", Source: twosComplement},
	I16:    {Name: "i16", Kind: Int, Bits: 16, PTX: "s16", C: "int16_t", Source: twosComplement},
	I32:    {Name: "i32", Kind: Int, Bits: 32, PTX: "s32", C: "int32_t", Source: twosComplement},
	I64:    {Name: "i64", Kind: Int, Bits: 64, PTX: "s64", C: "int64_t", Source: twosComplement},
	U16:    {Name: "u16", Kind: Uint, Bits: 16, PTX: "u16", C: "uint16_t", Source: twosComplement},
	U32:    {Name: "u32", Kind: Uint, Bits: 32, PTX: "u32", C: "uint32_t", Source: twosComplement},
	U64:    {Name: "u64", Kind: Uint, Bits: 64, PTX: "u64", C: "uint64_t", Source: twosComplement},
	Bool:   {Name: "bool", Kind: BoolKind, Bits: 8, PTX: "b8", C: "bool", Source: boolByte},
	F16:    {Name: "f16", Kind: Float, Bits: 16, Exp: 5, Man: 10, Bias: 15, Special: IEEE, PTX: "f16", C: "__half", Source: ieee754},
	BF16:   {Name: "bf16", Kind: Float, Bits: 16, Exp: 8, Man: 7, Bias: 127, Special: IEEE, PTX: "bf16", C: "__nv_bfloat16", Source: ptxTypes},
	TF32:   {Name: "tf32", Kind: Float, Bits: 32, Exp: 8, Man: 10, Bias: 127, Special: IEEE, PTX: "tf32", C: "float", Source: ptxTypes},
	F32:    {Name: "f32", Kind: Float, Bits: 32, Exp: 8, Man: 23, Bias: 127, Special: IEEE, PTX: "f32", C: "float", Source: ieee754},
	F64:    {Name: "f64", Kind: Float, Bits: 64, Exp: 11, Man: 52, Bias: 1023, Special: IEEE, PTX: "f64", C: "double", Source: ieee754},
	F3E1M1: {Name: "f3e1m1", Kind: Float, Bits: 3, Exp: 1, Man: 1, Bias: 0, Special: Finite, Source: tilusFloats},
	F3E2M0: {Name: "f3e2m0", Kind: Float, Bits: 3, Exp: 2, Man: 0, Bias: 1, Special: Finite, Source: anySplit},
	F4E1M2: {Name: "f4e1m2", Kind: Float, Bits: 4, Exp: 1, Man: 2, Bias: 0, Special: Finite, Source: tilusFloats},
	F4E2M1: {Name: "f4e2m1", Kind: Float, Bits: 4, Exp: 2, Man: 1, Bias: 1, Special: Finite, PTX: "e2m1", C: "__nv_fp4_e2m1", Source: ocpMX},
	F4E3M0: {Name: "f4e3m0", Kind: Float, Bits: 4, Exp: 3, Man: 0, Bias: 3, Special: Finite, Source: anySplit},
	F5E1M3: {Name: "f5e1m3", Kind: Float, Bits: 5, Exp: 1, Man: 3, Bias: 0, Special: Finite, Source: tilusFloats},
	F5E2M2: {Name: "f5e2m2", Kind: Float, Bits: 5, Exp: 2, Man: 2, Bias: 1, Special: Finite, Source: tilusFloats},
	F5E3M1: {Name: "f5e3m1", Kind: Float, Bits: 5, Exp: 3, Man: 1, Bias: 3, Special: Finite, Source: tilusFloats},
	F5E4M0: {Name: "f5e4m0", Kind: Float, Bits: 5, Exp: 4, Man: 0, Bias: 7, Special: Finite, Source: anySplit},
	F6E1M4: {Name: "f6e1m4", Kind: Float, Bits: 6, Exp: 1, Man: 4, Bias: 0, Special: Finite, Source: anySplit},
	F6E2M3: {Name: "f6e2m3", Kind: Float, Bits: 6, Exp: 2, Man: 3, Bias: 1, Special: Finite, PTX: "e2m3", C: "__nv_fp6_e2m3", Source: ocpMX},
	F6E3M2: {Name: "f6e3m2", Kind: Float, Bits: 6, Exp: 3, Man: 2, Bias: 3, Special: Finite, PTX: "e3m2", C: "__nv_fp6_e3m2", Source: ocpMX},
	F6E4M1: {Name: "f6e4m1", Kind: Float, Bits: 6, Exp: 4, Man: 1, Bias: 7, Special: Finite, Source: tilusFloats},
	F6E5M0: {Name: "f6e5m0", Kind: Float, Bits: 6, Exp: 5, Man: 0, Bias: 15, Special: Finite, Source: anySplit},
	F7E1M5: {Name: "f7e1m5", Kind: Float, Bits: 7, Exp: 1, Man: 5, Bias: 0, Special: Finite, Source: anySplit},
	F7E2M4: {Name: "f7e2m4", Kind: Float, Bits: 7, Exp: 2, Man: 4, Bias: 1, Special: Finite, Source: tilusFloats},
	F7E3M3: {Name: "f7e3m3", Kind: Float, Bits: 7, Exp: 3, Man: 3, Bias: 3, Special: Finite, Source: tilusFloats},
	F7E4M2: {Name: "f7e4m2", Kind: Float, Bits: 7, Exp: 4, Man: 2, Bias: 7, Special: Finite, Source: tilusFloats},
	F7E5M1: {Name: "f7e5m1", Kind: Float, Bits: 7, Exp: 5, Man: 1, Bias: 15, Special: Finite, Source: tilusFloats},
	F7E6M0: {Name: "f7e6m0", Kind: Float, Bits: 7, Exp: 6, Man: 0, Bias: 31, Special: Finite, Source: anySplit},
	F8E1M6: {Name: "f8e1m6", Kind: Float, Bits: 8, Exp: 1, Man: 6, Bias: 0, Special: Finite, Source: anySplit},
	F8E2M5: {Name: "f8e2m5", Kind: Float, Bits: 8, Exp: 2, Man: 5, Bias: 1, Special: Finite, Source: anySplit},
	F8E3M4: {Name: "f8e3m4", Kind: Float, Bits: 8, Exp: 3, Man: 4, Bias: 3, Special: Finite, Source: anySplit},
	F8E4M3: {Name: "f8e4m3", Kind: Float, Bits: 8, Exp: 4, Man: 3, Bias: 7, Special: FN, PTX: "e4m3", C: "__nv_fp8_e4m3", Source: ocpFP8},
	F8E5M2: {Name: "f8e5m2", Kind: Float, Bits: 8, Exp: 5, Man: 2, Bias: 15, Special: IEEE, PTX: "e5m2", C: "__nv_fp8_e5m2", Source: ocpFP8},
	F8E6M1: {Name: "f8e6m1", Kind: Float, Bits: 8, Exp: 6, Man: 1, Bias: 31, Special: Finite, Source: anySplit},
	F8E7M0: {Name: "f8e7m0", Kind: Float, Bits: 8, Exp: 7, Man: 0, Bias: 63, Special: Finite, Source: anySplit},
	F8E8M0: {Name: "f8e8m0", Kind: Float, Bits: 8, Exp: 8, Man: 0, Bias: 127, Special: Scale, PTX: "ue8m0", C: "__nv_fp8_e8m0", Source: ocpMX},
}
