package code

// This file holds the builder's short names for common instructions; each is
// one Emit. What has no short name here is emitted by its op.

func (b *Builder) op(op Op, in ...Value) Value { return b.Emit1(op, nil, in...) }

// The special registers.

func (b *Builder) TidX() Value       { return b.op(OpTidX) }       // thread in its block
func (b *Builder) CtaidX() Value     { return b.op(OpCtaidX) }     // block along x
func (b *Builder) CtaidY() Value     { return b.op(OpCtaidY) }     // block along y
func (b *Builder) CtaidZ() Value     { return b.op(OpCtaidZ) }     // block along z
func (b *Builder) LaneID() Value     { return b.op(OpLaneID) }     // lane in its warp
func (b *Builder) SharedBase() Value { return b.op(OpSharedBase) } // shared address of the first byte

// WarpID is the number of the warp in its block, equal in all its lanes.
func (b *Builder) WarpID() Value {
	return b.op(OpShflIdx, b.Shr32(b.TidX(), b.Const32(5)), b.Const32(0))
}

// 32-bit integers.

func (b *Builder) Add32(x, y Value) Value    { return b.op(OpAdd32, x, y) }
func (b *Builder) Sub32(x, y Value) Value    { return b.op(OpSub32, x, y) }
func (b *Builder) Mul32(x, y Value) Value    { return b.op(OpMul32, x, y) }
func (b *Builder) Mad32(x, y, z Value) Value { return b.op(OpMad32, x, y, z) }
func (b *Builder) And32(x, y Value) Value    { return b.op(OpAnd32, x, y) }
func (b *Builder) Or32(x, y Value) Value     { return b.op(OpOr32, x, y) }
func (b *Builder) Xor32(x, y Value) Value    { return b.op(OpXor32, x, y) }
func (b *Builder) Shl32(x, n Value) Value    { return b.op(OpShl32, x, n) }
func (b *Builder) Shr32(x, n Value) Value    { return b.op(OpShrU32, x, n) } // zeros enter
func (b *Builder) Sar32(x, n Value) Value    { return b.op(OpShrS32, x, n) } // the sign enters

// BfeU is the bits pos … pos+width-1 of x, zeros above.
func (b *Builder) BfeU(x Value, pos, width int) Value {
	return b.Emit1(OpBfeU32, []int64{int64(pos), int64(width)}, x)
}

// BfeS is the bits pos … pos+width-1 of x, their sign above.
func (b *Builder) BfeS(x Value, pos, width int) Value {
	return b.Emit1(OpBfeS32, []int64{int64(pos), int64(width)}, x)
}

// Bfi is base with its bits pos … pos+width-1 replaced by the low bits of x.
func (b *Builder) Bfi(x, base Value, pos, width int) Value {
	return b.Emit1(OpBfi32, []int64{int64(pos), int64(width)}, x, base)
}

// Lop3 is the bitwise function of three inputs with truth table lut; build lut
// from LopA, LopB and LopC, as in LopA&LopB|LopC.
func (b *Builder) Lop3(x, y, z Value, lut int64) Value {
	return b.Emit1(OpLop3, []int64{lut & 255}, x, y, z)
}

// The truth tables of the inputs of lop3.
const (
	LopA = 0xf0
	LopB = 0xcc
	LopC = 0xaa
)

// Prmt picks four bytes of y·2^32 + x.
func (b *Builder) Prmt(x, y Value, selector uint16) Value {
	return b.op(OpPrmt, x, y, b.Const32(int64(selector)))
}

// 64-bit integers and widths.

func (b *Builder) Add64(x, y Value) Value       { return b.op(OpAdd64, x, y) }
func (b *Builder) Sub64(x, y Value) Value       { return b.op(OpSub64, x, y) }
func (b *Builder) Mul64(x, y Value) Value       { return b.op(OpMul64, x, y) }
func (b *Builder) MulWideU(x, y Value) Value    { return b.op(OpMulWideU32, x, y) }
func (b *Builder) MulWideS(x, y Value) Value    { return b.op(OpMulWideS32, x, y) }
func (b *Builder) MadWideU(x, y, z Value) Value { return b.op(OpMadWideU32, x, y, z) }
func (b *Builder) Zext32(x Value) Value         { return b.op(OpZext32, x) }
func (b *Builder) Sext32(x Value) Value         { return b.op(OpSext32, x) }
func (b *Builder) Trunc32(x Value) Value        { return b.op(OpTrunc32, x) }
func (b *Builder) Zext16(x Value) Value         { return b.op(OpZext16, x) }
func (b *Builder) Trunc16(x Value) Value        { return b.op(OpTrunc16, x) } // low half of a b32
func (b *Builder) Hi16(x Value) Value           { return b.op(OpHi16, x) }    // high half of a b32
func (b *Builder) Pack16(lo, hi Value) Value    { return b.op(OpPack16, lo, hi) }
func (b *Builder) Pack32(lo, hi Value) Value    { return b.op(OpPack32, lo, hi) }
func (b *Builder) Hi32(x Value) Value           { return b.op(OpHi32, x) }

// Comparisons and choices.

func (b *Builder) SetpS32(c Cmp, x, y Value) Value {
	return b.Emit1(OpSetpS32, []int64{int64(c)}, x, y)
}
func (b *Builder) SetpU32(c Cmp, x, y Value) Value {
	return b.Emit1(OpSetpU32, []int64{int64(c)}, x, y)
}
func (b *Builder) SetpS64(c Cmp, x, y Value) Value {
	return b.Emit1(OpSetpS64, []int64{int64(c)}, x, y)
}
func (b *Builder) SetpF32(c Cmp, x, y Value) Value {
	return b.Emit1(OpSetpF32, []int64{int64(c)}, x, y)
}
func (b *Builder) AndPred(p, q Value) Value { return b.op(OpAndPred, p, q) }
func (b *Builder) OrPred(p, q Value) Value  { return b.op(OpOrPred, p, q) }
func (b *Builder) NotPred(p Value) Value    { return b.op(OpNotPred, p) }

// Select is x where p is true, else y; both of one type, not pred.
func (b *Builder) Select(p, x, y Value) Value {
	op := OpSelp32
	switch b.f.Type(x) {
	case B16:
		op = OpSelp16
	case B64:
		op = OpSelp64
	}
	return b.op(op, x, y, p)
}

// Memory. Width is the bytes of one access: 1, 2, 4, 8 give one value of type
// b32 (zeros above the byte), b16, b32, b64; 8 bytes as two and 16 as four b32
// are LdGlobalV and so on.

func widthOp(first Op, bytes int) Op {
	switch bytes {
	case 1:
		return first
	case 2:
		return first + 1
	case 4:
		return first + 2
	case 8:
		return first + 3
	}
	panic("code: no scalar access of that many bytes")
}

func vectorOp(first Op, words int) Op {
	switch words {
	case 1:
		return first + 2
	case 2:
		return first + 4
	case 4:
		return first + 5
	}
	panic("code: no vector access of that many words")
}

// LdGlobal loads bytes from addr + offset.
func (b *Builder) LdGlobal(bytes int, addr Value, offset int, attr Attr) Value {
	return b.Emit1(widthOp(OpLdGlobalB8, bytes), []int64{int64(offset), int64(attr)}, addr)
}

// LdGlobalV loads 1, 2 or 4 words.
func (b *Builder) LdGlobalV(words int, addr Value, offset int, attr Attr) []Value {
	return b.Emit(vectorOp(OpLdGlobalB8, words), []int64{int64(offset), int64(attr)}, addr)
}

// StGlobal stores the low bytes of v to addr + offset.
func (b *Builder) StGlobal(bytes int, addr Value, offset int, attr Attr, v Value) {
	b.Emit(widthOp(OpStGlobalB8, bytes), []int64{int64(offset), int64(attr)}, addr, v)
}

// StGlobalV stores 1, 2 or 4 words.
func (b *Builder) StGlobalV(addr Value, offset int, attr Attr, words ...Value) {
	b.Emit(vectorOp(OpStGlobalB8, len(words)), []int64{int64(offset), int64(attr)}, append([]Value{addr}, words...)...)
}

// LdShared loads bytes from the shared address addr + offset.
func (b *Builder) LdShared(bytes int, addr Value, offset int) Value {
	return b.Emit1(widthOp(OpLdSharedB8, bytes), []int64{int64(offset)}, addr)
}

// LdSharedV loads 1, 2 or 4 words.
func (b *Builder) LdSharedV(words int, addr Value, offset int) []Value {
	return b.Emit(vectorOp(OpLdSharedB8, words), []int64{int64(offset)}, addr)
}

// StShared stores the low bytes of v to the shared address addr + offset.
func (b *Builder) StShared(bytes int, addr Value, offset int, v Value) {
	b.Emit(widthOp(OpStSharedB8, bytes), []int64{int64(offset)}, addr, v)
}

// StSharedV stores 1, 2 or 4 words.
func (b *Builder) StSharedV(addr Value, offset int, words ...Value) {
	b.Emit(vectorOp(OpStSharedB8, len(words)), []int64{int64(offset)}, append([]Value{addr}, words...)...)
}

// Guarded adds a memory or atomic instruction that only lanes with p take part
// in; the others get the values of rest, one for each result.
func (b *Builder) Guarded(p Value, op Op, imm []int64, in []Value, rest ...Value) []Value {
	row := op.Row()
	out, all, x := b.results(row.Out), take(&b.values, len(in)+len(rest)), b.instr()
	copy(all[copy(all, in):], rest)
	*x = Instr{Op: op, In: all, Out: out, Imm: kept(&b.imms, imm), Guard: p}
	b.Add(x)
	return out
}

// BarSync waits for all threads of the block.
func (b *Builder) BarSync() { b.Emit(OpBarSync, []int64{0}) }

// Mma is one of the OpMma rows: a has 4 words, bb 2, c as many as the result.
func (b *Builder) Mma(op Op, a, bb, c []Value) []Value {
	in := append(append(append([]Value(nil), a...), bb...), c...)
	return b.Emit(op, nil, in...)
}
