package ir

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// The rows of this file are about clusters: blocks that run at the same time and can
// use each other's shared memory. A program has clusters when it says so behind its
// parameters, cluster=[2, 1]: so many blocks along each dimension of the grid.

// MaxClusterBlocks bounds the blocks of a cluster.
const MaxClusterBlocks = 8

// What a multiprocessor holds at the same time bounds the blocks that a program may want there,
// resident=4 behind its parameters.
const (
	maxResident        = 32
	maxResidentThreads = 2048
)

// ClusterSize is how many blocks a cluster has; 1 for programs without.
func (p *Program) ClusterSize() int {
	n := 1
	for _, c := range p.Cluster {
		n *= c
	}
	return n
}

var clusterRows = []*Op{
	{
		Name: "ClusterRank", Family: "cluster", Class: ClassIndex,
		Doc: "The number of this block in its cluster, an i32: blocks are counted along the first dimension of the grid first.",
		Out: []Port{{Name: "rank", Accept: AcceptScalar}},
		Rules: []Rule{ruleClusters, {Text: "The result is an i32.", Check: func(p *Program, in *Instr) *Violation {
			if v := in.Out[0]; v.Type.Elem != dtype.I32 {
				return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s is %s", v.Name, v.Type.Elem), Help: "leave the type out, or use a new name"}
			}
			return nil
		}}},
		Since: "0.4", Source: "PTX ISA 10 %cluster_ctarank", Example: "r = ClusterRank()",
	},
	{
		Name: "ClusterSynchronize", Aliases: []string{"ClusterSyncThreads"}, Family: "cluster", Effects: Synchronizes,
		Doc: "A barrier of all blocks of the cluster: no thread goes on before all have come here, and what they stored before, in shared memory too, is seen by all of them after. Blocks use each other's shared memory and barriers only after a first one, and a block ends only after the last use that others make of its memory, which one before its end sees to.",
		Rules: []Rule{ruleClusters, {Text: "It stands in no thread group.", Why: "All threads of all blocks come to it.", Check: func(p *Program, in *Instr) *Violation {
			if grouped(p.Body, in, false) {
				return &Violation{Msg: "ClusterSynchronize in a thread group", Help: "move it behind the groups"}
			}
			return nil
		}}},
		Since: "0.4", Source: "PTX ISA 9.7.13.3 barrier.cluster", Example: "ClusterSynchronize()",
	},
}

var ruleClusters = Rule{Text: "The program has clusters.", Check: func(p *Program, in *Instr) *Violation {
	if len(p.Cluster) == 0 {
		return &Violation{Msg: "the program has no clusters", Help: "write cluster=[2] behind warps="}
	}
	return nil
}}

// grouped reports that an instruction stands in a thread group.
func grouped(b *Block, in *Instr, inside bool) (found bool) {
	for _, s := range b.Stmts {
		if s == Stmt(in) {
			return inside
		}
		_, group := s.(*Group)
		for _, inner := range Blocks(s) {
			found = found || grouped(inner, in, inside || group)
		}
	}
	return found
}
