package ir

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

var indicesRows = []*Op{{
	Name: "Indices", Family: "register",
	Doc:   "A tile whose elements are their own indices along a dimension: with dim=[1], element [i, j] is j. Add the place of the tile to get indices of a tensor; compare them to mask what lies outside, or above a diagonal.",
	Out:   []Port{{Name: "tile", Accept: AcceptRegister}},
	Attrs: []AttrSpec{{Name: "dim", Kind: AttrInts, Required: true, Doc: "the dimension, as a list of one"}},
	Rules: []Rule{
		{Text: "The element type is i32 or u32.", Check: func(p *Program, in *Instr) *Violation {
			if t := in.Out[0].Type.Elem; t != dtype.I32 && t != dtype.U32 {
				return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("indices of %s", t), Help: "Cast them from i32"}
			}
			return nil
		}},
		{Text: "dim is one dimension of the tile.", Check: func(p *Program, in *Instr) *Violation {
			dims, rank := in.ReducedDims(), len(in.Out[0].Type.Shape)
			if len(dims) != 1 || dims[0] < 0 || dims[0] >= rank {
				return &Violation{Pos: in.attrPos("dim"), Msg: fmt.Sprintf("dim is %v", dims), Help: fmt.Sprintf("write one of the dimensions 0 to %d, dim=[0]", rank-1)}
			}
			return nil
		}},
	},
	Since: "0.3", Source: tilusDoc + ".register_tensor with init", Example: "j = Indices(dim=[1]) : register i32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)",
}}
