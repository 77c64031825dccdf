// Command core is what the static build of the explorer runs in the browser: the
// answers of web/answer, without a server. `tilus-lab site` builds it.
package main

import (
	"syscall/js"

	"github.com/tilus-lab/tilus-lab/web/answer"
)

func main() {
	// ask answers one message of the page; both are JSON.
	js.Global().Set("tilusAsk", js.FuncOf(func(_ js.Value, args []js.Value) any {
		return string(answer.Offline([]byte(args[0].String())))
	}))
	// picture makes the file of an address /svg?…: {name, mime, data} or {error}.
	js.Global().Set("tilusPicture", js.FuncOf(func(_ js.Value, args []js.Value) any {
		f, err := answer.Picture(args[0].String())
		if err != nil {
			return map[string]any{"error": err.Error()}
		}
		data := js.Global().Get("Uint8Array").New(len(f.Data))
		js.CopyBytesToJS(data, f.Data)
		return map[string]any{"name": f.Name, "mime": f.MIME, "data": data}
	}))
	js.Global().Call("tilusReady")
	select {}
}
