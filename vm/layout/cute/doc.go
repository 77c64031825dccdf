// Package cute is CuTe's layout algebra: shape:stride layouts with nested modes.
package cute
