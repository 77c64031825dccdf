package opt

import (
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// lists lends lists of facts by value. Each pass needs some, as long as the function has
// values, and drops them at its end: making them anew would cost more than most passes.
type lists[T any] struct{ pool sync.Pool }

var (
	intLists    lists[int]
	valueLists  lists[code.Value]
	instrLists  lists[*code.Instr]
	constLists  lists[constant]
	sumLists    lists[sum]
	indexLists  lists[index]
	boolLists   lists[bool]
	wordLists   lists[uint32]
	numberLists lists[int64]
	loadLists   lists[loads]
)

// lend is a list of n zeros, with room for some more.
func (l *lists[T]) lend(n int) []T {
	if p, ok := l.pool.Get().(*[]T); ok && cap(*p) >= n {
		return (*p)[:n]
	}
	return make([]T, n, n+n/4+64)
}

// back takes lists that nothing uses any more.
func (l *lists[T]) back(used ...[]T) {
	for _, s := range used {
		clear(s)
		l.pool.Put(&s)
	}
}

// room is a list by value that has a place for v.
func room[T any](list []T, v code.Value) []T {
	n := int(v) + 1
	if n <= len(list) {
		return list
	}
	if n > cap(list) {
		list = append(make([]T, 0, n+n/4+64), list...)
	}
	return list[:n]
}
