// The worker of a static explorer, after Go's wasm_exec.js: it starts the core and
// answers one call at a time.
self.tilusReady = () => self.postMessage({ ready: true });
self.onmessage = async ({ data }) => {
  if (data.core) {
    try {
      const plain = new Response(new Blob([data.core]).stream().pipeThrough(new DecompressionStream("gzip")), { headers: { "Content-Type": "application/wasm" } });
      const go = new Go();
      const { instance } = await WebAssembly.instantiateStreaming(plain, go.importObject);
      go.run(instance).then(() => self.postMessage({ failed: "it has ended" }));
    } catch (e) {
      self.postMessage({ failed: String(e) });
    }
    return;
  }
  const result = data.what === "ask" ? self.tilusAsk(data.text) : self.tilusPicture(data.text);
  self.postMessage({ n: data.n, result });
};
