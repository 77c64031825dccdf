package template

// What [Plan.Estimate] knows of programs with so many rows, fitted to schedules of tests/record/schedules.json that
// [Candidates] offers; those of 32 rows with a weight on the times of what they lead to. Instructions are those that the
// model counts, so that some rates are more than a machine has.

// ratesOf are those for so many rows of a block: of the most that are no more.
func ratesOf[T any](by map[int]T, rows int) T {
	for ; rows > 8; rows /= 2 {
		if of, ok := by[rows]; ok {
			return of
		}
	}
	return by[8]
}

// meetRates are of blocks that share k.
type meetRates struct {
	count float64 // µs that they take to count themselves
	moved float64 // times that a partial sum of theirs is moved, in effect
}

// partsRates are of warps that share k.
type partsRates struct {
	fixed   float64   // µs of a launch that those beside it do not hide
	issued  float64   // instructions a cycle of a multiprocessor
	alone   float64   // of one warp
	turn    float64   // instructions of a warp's turn, whatever it multiplies
	mma     float64   // instructions that a matrix instruction is worth
	scale   float64   // to scale sums of a tile and 8 rows
	again   float64   // the same, and as many for each tile, with each further scale of a turn
	less    float64   // for an element whose zero point is taken off its code
	rest    float64   // the same, where sums of x take off what is left of it
	fold    float64   // times the instructions of folding scales
	near    float64   // bytes a µs of weights and x that a multiprocessor takes in
	x       float64   // of x's bytes, the part that counts as such
	wait    float64   // µs from a load to what it brings
	block   float64   // µs of a block beside its turns
	meet    float64   // µs more for each warp and tile whose sums meet
	crowded float64   // of the places for blocks that a launch leaves free, what multiprocessors with more blocks lose
	split   meetRates // where blocks of a split meet in the L2 cache
	joint   meetRates // as a cluster
	narrow  float64   // times as long as that, at least, four warps along k take with 2 bits and few loads under way
}

var partsBy = map[int]partsRates{
	8:  {fixed: 0.514, issued: 4.43, alone: 0.534, turn: 41.8, mma: 6.04, scale: 50.4, again: 33.2, less: 0.327, rest: 0.504, fold: 1.02, near: 104000, x: 1.13, wait: 0.221, block: 0.972, meet: 0.0146, crowded: 1.05, split: meetRates{0.846, 7.8}, joint: meetRates{1.01, 0.142}, narrow: 1.3},
	32: {fixed: 2.02, issued: 11.3, alone: 0.476, turn: 54, mma: 5.72, scale: 72.2, again: 157, less: 0.26, fold: 2.7, near: 48400, x: 0.456, wait: 0.145, block: 0.204, meet: 0.01, crowded: 0.859, split: meetRates{0.8, 4.96}, joint: meetRates{0.677, 4.4}, narrow: 1},
}

// ringRates are of warps along k that have their turns from stages.
type ringRates struct {
	fixed   float64 // µs of a launch
	issued  float64 // instructions a cycle of a multiprocessor
	alone   float64 // of one warp
	element float64 // times the instructions of casts
	mma     float64 // instructions that a matrix instruction is worth
	less    float64 // for an element whose zero point is taken off its code, of element
	again   float64 // to scale sums of a tile, with each further scale of a turn
	fold    float64 // the same, to fold a scale
	uneven  float64 // of what multiprocessors with more blocks than others bring beside these, the part that counts
	ring    float64 // µs from a free stage to a full one
	join    float64 // µs of a block for each of its warps, whose sums meet
	tail    float64 // of the last step of a warp, what nothing hides
	last    float64 // the same, of all warps of a multiprocessor
	all     float64 // times as long as that, where weights of all stages are asked for early
	beside  float64 // times that, ranked beside warps along k without stages, whose estimates are low of those that are chosen for them
	digits  float64 // times that, ranked beside digits and groups apart
	split   meetRates
}

var ringBy = ringRates{fixed: 1.11, issued: 6.07, alone: 1.21, element: 2.22, mma: 9.52, less: 0.064, again: 33, fold: 15.9, uneven: 0.287, ring: 0.904, join: 0.0119, tail: 0.404, last: 0.299, all: 1.03, beside: 0.8, digits: 0.94, split: meetRates{0.222, 16.7}}

// streamRates are of blocks that stay.
type streamRates struct {
	fixed   float64 // µs of a launch, of which those beside it hide the rest
	issued  float64 // instructions a cycle of a multiprocessor
	alone   float64 // of one warp
	turn    float64 // instructions of a warp's turn, whatever it multiplies
	wait    float64 // cycles that a warp waits in its turn
	mma     float64 // instructions that a matrix instruction is worth
	scale   float64 // to scale sums of a tile and 8 rows, and as many for each tile
	again   float64 // the same, with each further scale of a turn; of warpgroups, cycles of a tile
	chain   float64 // cycles that a warp waits for each of these
	convert float64 // to convert a scale of a tile of less than 16 bits
	stages  float64 // where a turn has several scales or none, what eight stages take more than four
	less    float64 // for an element whose zero point is taken off its code
	rest    float64 // the same, where sums of x take off what is left of it
	fold    float64 // times the instructions of folding scales
	x       float64 // of x's bytes, which come from the L2 cache
	ring    float64 // µs from a free stage to a full one
	block   float64 // µs for each block that comes to the same outputs
	part    float64 // bytes a µs of their sums, which the last one reads
}

var streamBy = map[int]streamRates{
	8:  {fixed: 2.91, issued: 3.73, alone: 0.782, turn: 32.4, wait: 170, mma: 2.16, scale: 9.88, again: 1.08, chain: 21.6, fold: 0.714, rest: 0.3, stages: 0.0917, x: 0.198, ring: 0.986, block: 0.426, part: 52200},
	32: {fixed: 2.29, issued: 3.82, alone: 1.15, turn: 76, wait: 155, mma: 6.5, scale: 2.87, again: 6.9, chain: 61.5, convert: 7.5, fold: 0.3, less: 0.5, rest: 0.69, x: 0.005, ring: 0.859, block: 0.016, part: 28100},
}

// gangRates are of those that multiply by warpgroups, which count cycles instead of instructions.
var gangRates = streamRates{fixed: 2.51, again: 42, x: 0.156, ring: 1.05, block: 0.222, part: 81800}

const (
	partsMore    = 0.741  // of how many further scales a turn has, the power that counts for warps along k
	partsChain   = 0.291  // of what these take, what a warp waits for
	partsSqueeze = 0.971  // of what threads have less than they are estimated to need where ptxas is told how many blocks are to fit, how much longer a warp takes alone
	partsJoin    = 0.0401 // µs of a block for each of its warps, whose sums meet

	partsApart = 27   // instructions of a warp's turn more where it shares k and groups of one row are apart
	apartChain = 1.37 // times as many are what the warp waits for
	apartMeet  = 3.73 // as partsRates.meet, times as much then
	foldScale  = 14.0 // instructions to fold a scale of a thread's two outputs, beside each pair, of fold
	foldLoad   = 45.6 // the same to load it, for warps along k

	foldPlain = 0.51 // of foldScale, what scales of 16 bits take
	gangFold  = 1.08 // as partsRates.fold, for warpgroups

	gangTile  = 141   // cycles that a tile of 64 outputs takes all warpgroups
	gangAlone = 127   // and what it takes its own beside its cast
	gangChain = 2.33  // the same for each instruction of a thread's cast
	gangMore  = 0.283 // of these, what eight stages take more than four
	fixedTile = 165   // as gangTile, with x as whole numbers
	fixedTurn = 600   // of a turn of these

	earlyAll = 0.952 // of all that blocks that stay take, where they ask for weights of fewer turns early

	digitsFixed = 3.6   // as streamRates.fixed, with digits
	digitsAlone = 1.59  // as streamRates.alone
	digitsWait  = 623   // as streamRates.wait
	bytewise    = 0.67  // instructions for each element that is multiplied as bytes
	fixedwise   = 0.613 // the same, with digits of 16 or 31 bits
	digitsScale = 20    // to scale sums of a tile
	longScale   = 5.55  // the same, with 31 bits
	longFixed   = 2.15  // as digitsFixed, with 31 bits; fitted to qmm_1.json and qmm_types.json
	longBlock   = 0.118 // as streamRates.block
)
