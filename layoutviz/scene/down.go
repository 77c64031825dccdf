package scene

import (
	"fmt"
	"slices"
)

// Down is a shape dy pixels further down.
func Down(it Item, dy int) Item {
	switch it := it.(type) {
	case Fills:
		it.Boxes = slices.Clone(it.Boxes)
		for i := range it.Boxes {
			it.Boxes[i].Y += dy
		}
		return it
	case Strokes:
		it.Segs = slices.Clone(it.Segs)
		for i := range it.Segs {
			it.Segs[i].Y1 += dy
			it.Segs[i].Y2 += dy
		}
		return it
	case Line:
		it.Points = slices.Clone(it.Points)
		for i := range it.Points {
			it.Points[i].Y += dy
		}
		return it
	case Band:
		it.Y1 += dy
		it.Y2 += dy
		return it
	case Text:
		it.Y += dy
		return it
	}
	panic(fmt.Sprintf("scene: no way down for %T", it))
}
