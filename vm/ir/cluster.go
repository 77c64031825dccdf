package ir

// The rows of this file are about clusters: blocks that run at the same time and can
// use each other's shared memory. A program has clusters when it says so behind its
// parameters, cluster=[2, 1]: so many blocks along each dimension of the grid.

// MaxClusterBlocks bounds the blocks of a cluster.
const MaxClusterBlocks = 8

// ClusterSize is how many blocks a cluster has; 1 for programs without.
func (p *Program) ClusterSize() int {
	n := 1
	for _, c := range p.Cluster {
		n *= c
	}
	return n
}
