package layoutviz

import "github.com/tilus-lab/tilus-lab/layoutviz/scene"

// Made is a picture whose shapes were drawn elsewhere: what packages below this one
// make their pictures with. ids says what stands where.
func Made(s *scene.Scene, title, desc string, ids []Element) Picture {
	return Picture{SVG: s.SVG(title, desc), Width: s.W, Height: s.H, IDs: ids, Title: title, Desc: desc, scene: s}
}
