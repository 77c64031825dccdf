package interp

import (
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// peer is a block of the running cluster that is not at work now.
type peer struct {
	block   int
	frames  []frame
	vars    []value
	strands []strand
	cur     int
	order   order
	smem    sharedMemory
	idle    bool // waits, and nobody of its block can make what it waits for
	done    bool
}

// peerOf is the memory of the block that rank names; the running one's without.
func (m *Machine) peerOf(in *ir.Instr) (*sharedMemory, error) {
	return &m.smem, nil
}

// receivers are the memories of the blocks that a copy goes to.
func (m *Machine) receivers(in *ir.Instr) ([]*sharedMemory, error) {
	return []*sharedMemory{&m.smem}, nil
}
