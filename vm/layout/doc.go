// Package layout says where the elements of a tile are: which thread holds which of
// them in registers, and at which offset each lies in shared, global or tensor
// memory. It has the layouts, their algebra, and the notation in which programs
// write them.
//
// # What a layout is
//
// A tile is a small tensor, say 16 rows by 8 columns, that the threads of a block
// hold together in registers. A layout is the map
//
//	(thread, slot) → index
//
// where slot counts the elements that one thread holds. Two kinds of factors make
// all the usual layouts. Spatial(8, 4) gives 32 threads one element each:
// thread t holds (t / 4, t % 4). Local(2, 1) gives one thread two elements: slot s
// holds (s, 0). Both count in row-major order, the last dimension fastest;
// ColumnSpatial and ColumnLocal count the first dimension fastest.
//
// # The product
//
// f.Mul(g), written f * g or as a chain of calls, replaces every element of f by a
// whole copy of g. Shapes multiply; threads and slots of f are the slow digits,
// those of g the fast ones:
//
//	(f * g)(t, s) = f(t / Tg, s / Ng) * shape(g) + g(t % Tg, s % Ng)
//
// with Tg threads and Ng slots in g, elementwise over the dimensions. The product
// is associative; a layout of all ones is its identity; order matters.
//
// # By hand: what mma.m16n8k16 leaves in registers
//
// The tensor core's 16x8 accumulator is
//
//	c := layout.Local(2, 1).Spatial(8, 4).Local(1, 2)
//
// Read it from the right. Local(1, 2): each thread has two neighbours of a row.
// Spatial(8, 4): 32 threads in 8 rows of 4, which covers 8x8. Local(2, 1): all of
// that twice, one below the other, which covers 16x8. So there are 32 threads
// with 4 slots. Thread 5, slot 2: 5 is row 1, column 1 of the 8x4 threads; slot 2
// is digit 1 of Local(2, 1) and digit 0 of Local(1, 2). The row is 1*8 + 1 = 9, the
// column 1*2 + 0 = 2:
//
//	c.Index(5, 2)   // [9 2]
//	c.Holders(9, 2) // [{5 2}]
//	fmt.Println(c)  // local(2, 1).spatial(8, 4).local(1, 2)
//
// # Taking apart
//
// c.Div(layout.Spatial(8, 4).Local(1, 2)) asks what stands to the left of an inner
// part: Local(2, 1), so c is two 8x8 matrices of the kind that ldmatrix loads.
// LeftDiv asks for what stands to the right of an outer part. Both fail, with
// the reason, where there is no such layout. Reduce turns the threads along
// a dimension into replicas, which all hold the same element; [Layout.Holders]
// then lists several places.
//
// # The four lists
//
// Every layout is four lists of integers. The mode shape factors each dimension;
// the spatial modes say which modes, in which order, are the digits of the
// thread number, slowest first, with -r for a replica digit of size r; the local
// modes do the same for the slot number. c has shape [16, 8], modes [2, 8, 4, 2],
// spatial modes [1, 2] and local modes [0, 3]. Layouts are kept in a canonical
// form: modes of size 1 are dropped, and neighbours are merged where that does not
// change the map. It is unique: two layouts are [Layout.Equal] exactly where they
// are the same map.
//
// # Shared memory
//
// A [Shared] layout maps an index to an offset. Its modes have strides instead of
// places in a thread number, and a [Swizzle] may permute the sum. Take a tile of 8
// rows of 64 f16 elements, 128 bytes a row:
//
//	plain := layout.SharedRowMajor(8, 64)
//	tile, err := layout.SharedRowMajorSwizzle(16, 8, 64)
//
// In plain, element (r, 0) lies at 64*r, so the first 16 bytes of all rows are in
// the same four banks, and ldmatrix, which reads them at once, waits eight times.
// In tile the swizzle Sw<3,3,3> moves the 16-byte unit u of row r to place u^r:
//
//	tile.Offset(1, 0) // 72: row 1 begins at 64, its unit 0 stands second
//	tile.Offset(1, 8) // 64: its unit 1 stands first
//
// Now every column of units meets all banks. tile.Prepend(3) are three such tiles
// for a pipeline, Slice takes one of them again, and [Shared.Canonical] says in which
// of the forms that wgmma reads the tile lies: one K-major block with 128-byte
// swizzle. [Global] is the same without swizzle and with large strides,
// [TMemory] counts lanes and columns.
//
// # Who has what another needs
//
// To add a row of scales to c, each thread needs the scale of every column that it
// holds. [MultiFunction] is the map from an index to a set of threads. Those who
// compute column j are c's holders with the row left open; those who have its scale
// hold it in a layout s of shape [8]:
//
//	need, err := c.Holding().CollapseTo([]int{8}) // any row
//	ok, err := s.Holding().Covers(need)
//
// s = c.ReduceTo([8]) always covers, because reducing makes replicas of all of them.
//
// # Notation
//
// [Parse] reads what [Layout.String] prints, and the whole language of the
// functions that [Functions] lists: calls, method chains, '*' and '/' of equal
// precedence, parentheses, keyword arguments. Complaints are a diag.List whose
// codes [Rules] explains. [ParseShared], [ParseGlobal] and [ParseTMemory] read the
// layouts of memory in the same syntax.
//
// Source: Tilus, "A Tile-Level GPGPU Programming Language for Low-Precision
// Computation", section 4; github.com/NVIDIA/tilus, ir/layout.
package layout
