package emit

import "github.com/tilus-lab/tilus-lab/gpu/emit/tensor"

// Kernels at the tensor level.
type (
	Func   = tensor.Func
	Step   = tensor.Step
	Op     = tensor.Op
	Value  = tensor.Value
	Tensor = tensor.Tensor
	Role   = tensor.Role
)

// The roles of arguments and the steps.
const (
	Read   = tensor.Read
	Write  = tensor.Write
	Update = tensor.Update

	PureCall      = tensor.PureCall
	Extract       = tensor.Extract
	Insert        = tensor.Insert
	Alloc         = tensor.Alloc
	Sync          = tensor.Sync
	Combine       = tensor.Combine
	Fold          = tensor.Fold
	ShuffleReduce = tensor.ShuffleReduce
	AtomicRMW     = tensor.AtomicRMW
	Inject        = tensor.Inject
	Loop          = tensor.Loop
	If            = tensor.If
	LastBlock     = tensor.LastBlock
	Zip           = tensor.Zip
	Start         = tensor.Start
	Let           = tensor.Let
	Choose        = tensor.Choose
	Identity      = tensor.Identity
)

const lane = tensor.Lane
