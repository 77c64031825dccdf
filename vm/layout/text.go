package layout

// String is the layout in notation that [Parse] reads back.
func (l Layout) String() string {
	m, s, x := l.modes()
	return "register_layout(" + list(l.rep().shape) + ", " + list(m) + ", " + list(s) + ", " + list(x) + ")"
}
